"""The release, in a module that imports nothing: the package itself imports its Python face."""

__version__ = "0.1.0"
