"""Everything that touches a private part of PySpark or of its JVM; `docs/internals.md` lists each name.

`releases` decides before any other module of this package is imported.
"""
