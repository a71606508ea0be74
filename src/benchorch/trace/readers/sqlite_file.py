"""Tables of an SQLite file of another program, read without trusting or changing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self, final

from benchorch.errors import TraceError

_CHUNK_ROWS = 65_536


@final
class SqliteFile:
    """The plain tables of one file; opened read-only, so that no journal is made beside it.

    Attributes:
        columns: names of the columns by table; views are none.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        connection.text_factory = _text
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        names = [str(name) for (name,) in self._run(tables)]
        self.columns: Mapping[str, frozenset[str]] = {
            name: frozenset(str(row[1]) for row in self._run(f"PRAGMA table_info({_quoted(name)})"))
            for name in names
        }

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """The file for as long as it is needed; TraceError if SQLite cannot read it."""
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                yield cls(path, connection)
        except sqlite3.Error as error:
            raise TraceError(f"{path} is an SQLite file that cannot be read: {error}.") from error

    def chunks(self, table: str, requested: Sequence[str]) -> Iterator[list[tuple[object, ...]]]:
        """One column after the other of some rows at a time, ``rowid`` first.

        A column that the table does not have is all None; a table that is not there gives none.
        """
        if table not in self.columns:
            return
        there = self.columns[table]
        names = (_quoted(name) if name in there else "NULL" for name in requested)
        cursor = self._run(f"SELECT rowid, {', '.join(names)} FROM {_quoted(table)}")
        while rows := cursor.fetchmany(_CHUNK_ROWS):
            yield list(zip(*rows, strict=True))

    def row(self, table: str, rowid: int) -> Mapping[str, object]:
        """All columns of one row by name, without those that have no value; empty if it is gone."""
        cursor = self._run(f"SELECT * FROM {_quoted(table)} WHERE rowid = ?", rowid)
        names = [column[0] for column in cursor.description]
        values = cursor.fetchone() or ()
        return {
            name: value for name, value in zip(names, values, strict=False) if value is not None
        }

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
