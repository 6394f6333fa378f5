"""The history of one cluster in an SQLite file: its rows, its writer, and questions to it."""
