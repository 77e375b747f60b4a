#!/usr/bin/python3
"""The products of the table of commands: --help, the manual page and completion know the same
commands and options. The last line is "N passed, N failed, N skipped".
"""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
from runner import BUILD  # noqa: E402

PROGRAM = BUILD / "peers/starling"


def run(*words, **options):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)


def starling(*words):
    result = run(PROGRAM, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def commands_in(help_text):
    """The commands that --help lists."""
    _, _, listed = help_text.partition("Subcommands:\n")
    return re.findall(r"^  ([a-z][a-z-]*)\b", listed, re.MULTILINE)


def options_in(help_text):
    """The options that --help lists, each name on its own."""
    _, _, listed = help_text.partition("Options:\n")
    heads = re.findall(r"^  (-\S+)", listed, re.MULTILINE)
    return [name.partition("{")[0] for head in heads for name in head.split(",")]


def table(path=()):
    """All commands as --help shows them: {("data", "encode"): ["--out", ...]}."""
    text = starling(*path, "--help")
    found = {path: options_in(text)}
    for name in commands_in(text):
        found |= table((*path, name))
    return found


class TheTableOfCommands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = table()
        cls.page = starling("describe", "man").replace("\\-", "-")
        cls.bash = starling("describe", "bash")
        cls.zsh = starling("describe", "zsh")

    def section(self, path):
        """The manual page's section for a command."""
        name = re.escape(" ".join(path))
        start = r"\.SH OPTIONS\n" if not path else rf"\.SS \\fB{name}\\fR"
        return re.search(rf"^{start}.*?(?=^\.S[SH] |\Z)", self.page, re.MULTILINE | re.DOTALL)[0]

    def complete(self, *words):
        """Bash's completions for the last word."""
        script = ('source /dev/stdin <<<"$1"; shift; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); _starling; printf "%s\\n" "${COMPREPLY[@]}"')
        result = run("bash", "-uc", script, "bash", self.bash, "starling", *words)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_help_lists_the_commands(self):
        self.assertGreater(len(self.table), 20)
        for path in (("up",), ("check",), ("data", "encode")):
            self.assertIn(path, self.table)
        self.assertIn("--keys", self.table["check",])

    def test_the_manual_page_has_every_command_and_option(self):
        for path, options in self.table.items():
            for option in options:
                with self.subTest(command=path, option=option):
                    page = self.section(() if option in ("-h", "--help") else path)
                    self.assertRegex(page, rf"\\fB{option}\\fR")

    def test_bash_completes_every_command_and_option(self):
        for path, options in self.table.items():
            inner = [other[-1] for other in self.table if other and other[:-1] == path]
            with self.subTest(command=path):
                self.assertEqual(sorted(self.complete(*path, "-")), sorted(options))
                if inner:
                    self.assertEqual(self.complete(*path, ""), inner)

    def test_zsh_knows_every_command_and_option(self):
        for path, options in self.table.items():
            name = "_".join(("_starling", *path)).replace("-", "_")
            body = re.search(rf"^{name}\(\) {{\n(.*?)^}}", self.zsh, re.MULTILINE | re.DOTALL)[1]
            for option in options:
                with self.subTest(command=path, option=option):
                    self.assertRegex(body, rf"['{{,*]{option}[=+,}}\[]")

    def test_bash_completes_what_is_begun(self):
        self.assertEqual(self.complete("che"), ["checkpoint", "check"])
        self.assertEqual(self.complete("swarm", "--pe"), ["--peers"])
        self.assertEqual(self.complete("bench", "co"), ["compute", "codec"])
        self.assertEqual(self.complete("data", "encode", "--vo"), ["--vocabulary"])
        self.assertEqual(self.complete("up", "--name", ""), [])

    def test_bash_completes_files_and_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "run.toml").touch()
            Path(folder, "runs").mkdir()
            both = [f"{folder}/run.toml", f"{folder}/runs"]
            self.assertEqual(sorted(self.complete("up", f"{folder}/r")), both)
            self.assertEqual(self.complete("up", "--dir", f"{folder}/r"), both[1:])
            self.assertEqual(self.complete("up", "--dir", "=", f"{folder}/r"), both[1:])
            self.assertEqual(sorted(self.complete("join", "--secret", f"{folder}/r")), both)

    def test_every_argument_has_a_name_that_says_something(self):
        for path in self.table:
            with self.subTest(command=path):
                self.assertNotRegex(self.section(path), r"\\fI(UINT|INT|FLOAT|)\\fR")

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_roff_has_no_complaint_about_the_page(self):
        result = run("groff", "-ww", "-man", "-Tutf8", "-", input=starling("describe", "man"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("EXIT STATUS", re.sub(r".\x08", "", result.stdout))  # struck twice: bold

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh_can_read_its_script(self):
        result = run("zsh", "-n", "/dev/stdin", input=self.zsh)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    sys.exit(runner.run("groff or zsh is not installed"))
