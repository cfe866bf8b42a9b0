"""Mutated record sets for both implementations of the decoder.

``python -m tests.fuzz`` reads them with the compiled decoder and compares it with the one in Python. With
``--sanitize`` the compiled one is built with an address sanitizer first. See ``__main__``.
"""
