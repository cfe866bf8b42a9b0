"""Parts of the documentation's site besides MkDocs: pages made from code, links, diagrams.

``docs/site/mkdocs.yml`` is its configuration; ``docs/site/hooks.py`` calls what is here. The pages in ``docs/`` are
written for a code host first, so nothing here may ask for a notation that only the site understands.
"""
