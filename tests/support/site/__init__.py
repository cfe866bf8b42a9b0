"""Parts of the documentation's site that do not depend on the tool that builds it.

``python -m tests.support.site`` writes the whole site as Markdown into ``build/pages``: the pages of ``docs/``, index,
changelog, examples, API and diagrams, with the links as the site has them. Beside it stands ``build/mkdocs.yml``, with
the whole navigation. MkDocs, or another tool that reads such a folder, only turns it into HTML. The pages in ``docs/``
are written for a code host first, so they must not need a notation that only the site understands.
"""
