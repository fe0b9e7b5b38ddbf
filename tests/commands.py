"""The command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from crossview.cli import app


def runner():
    try:
        return CliRunner(mix_stderr=False)  # older releases show errors among the output unless told not to
    except TypeError:
        return CliRunner()


def run(*arguments, status=0, of=app):
    result = runner().invoke(of, [str(a) for a in arguments])
    assert result.exit_code == status, result.output
    return result
