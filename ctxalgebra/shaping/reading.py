r"""Commands that only read: what is known to change nothing, option by option.

A list of what is dangerous has gaps, so this one is of what is not: each program with the options
that are known to read, written out in full. An option that is not listed, a short form of a long
one, or a script of `sed` that is not of the plain kind makes a command one that may change
something. Source: skills and saver, section 17 (W40).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from ctxalgebra.compaction.shell import word_set
from ctxalgebra.shaping.lines import Word, commands

__all__ = ["only_reads"]

Given: TypeAlias = tuple[list[Word], list[tuple[str, Word]]]
"""The operands of a command, and its options with their values."""


def _any(_: Given) -> bool:
    return True


@frozen
class _Form:
    """Say how a program may be called.

    Args:
        options: how the value of each comes: `""` for none, `=`, or `?` for one behind `=` only.
        whole: no letters are put together behind one dash.
        first: operands end the options.
        ordered: where an option stands behind an operand, systems read it differently.
        globs: words that a shell makes of `*` can't harm, since no option does.
        rest: what else is asked of operands and values.
    """

    options: Mapping[str, str]
    whole: bool = False
    first: bool = False
    ordered: bool = False
    globs: bool = False
    rest: Callable[[Given], bool] = _any


_NUMBER = re.compile(r"[+-][0-9]+\Z")
_LESS = re.compile(r"-(?:[0-9]+[A-Za-z]?)?\Z", re.ASCII)
"""What may begin with a dash as a value, as in `head -n -5` and `find . -size -10k`."""


def _form(
    options: str,
    *,
    whole: bool = False,
    first: bool = False,
    ordered: bool = False,
    globs: bool = False,
    rest: Callable[[Given], bool] = _any,
) -> _Form:
    """Make a form: `-n= -q --lines= --color?`; the letters of `-abc` are options each."""
    known: dict[str, str] = {}
    for word in options.split():
        name, takes = (word[:-1], word[-1]) if word[-1] in "=?" else (word, "")
        if whole or takes or name.startswith("--") or len(name) == 1:
            known[name] = takes
        else:
            known |= {f"-{letter}": "" for letter in name[1:]}
    return _Form(known, whole, first, ordered, globs, rest)


def _value(
    form: _Form, name: str, value: Word, ahead: list[Word], found: list[tuple[str, Word]]
) -> bool:
    """Note an option with its value, which is the next word where none stands at it.

    A next word that looks like an option is refused: where a program takes no value there, or reads
    its line twice as `git log` does, it is one.
    """
    if not value.text and form.options[name] == "=":
        if not ahead:
            return False
        value = ahead.pop()
        if value.text[:1] == "-" and not _LESS.match(value.text):
            return False
    if value.loose and not form.globs:
        return False
    found.append((name, value))
    return True


def _letters(form: _Form, word: Word, ahead: list[Word], found: list[tuple[str, Word]]) -> bool:
    """Read letters behind one dash; what stands behind one that takes a value is the value."""
    for at, letter in enumerate(word.text[1:], 2):
        takes = form.options.get(f"-{letter}")
        if takes is None:
            return False
        if takes:
            rest = word._replace(text=word.text[at:])
            return _value(form, f"-{letter}", rest, ahead, found)
    return True


def _long(form: _Form, word: Word, ahead: list[Word], found: list[tuple[str, Word]]) -> bool:
    """Read an option that is one word, with its value behind `=` or in the next one."""
    name, equals, value = word.text.partition("=")
    takes = form.options.get(name)
    if takes is None or (equals and not (takes and value)):
        return False
    return _value(form, name, word._replace(text=value), ahead, found)


def _given(form: _Form, words: Sequence[Word]) -> Given | None:
    """Part operands from options; None where one is not known, or could be any."""
    if not form.globs and any(word.open for word in words):
        return None
    operands: list[Word] = []
    options: list[tuple[str, Word]] = []
    ahead = [*reversed(words)]
    only = False
    while ahead:
        word = ahead.pop()
        text = word.text
        if only or len(text) < 2 or text[0] != "-" or _NUMBER.match(text):
            operands.append(word)
            only = only or form.first
        elif text == "--" and not form.whole:
            only = True
        else:
            read = _long if form.whole or text.startswith("--") else _letters
            if (form.ordered and operands) or not read(form, word, ahead, options):
                return None
    return operands, options


# What is asked of some programs


def _one(given: Given) -> bool:
    """A second operand of `uniq` is a file that is written."""
    return len(given[0]) < 2 and not any(word.loose for word in given[0])


def _shown(given: Given) -> bool:
    """An operand of `date` that is no format sets the clock."""
    return all(word.text.startswith("+") for word in given[0])


_REGEX = r"(?:\\[^\n]|\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]\\/\n])*+\]|[^\\\[/\n])*+"
_PLACE: Final = rf"(?:[0-9]++(?:~[0-9]++)?|\$|/{_REGEX}/[IM]*+)"
_D: Final = "(?!(?P=mark))"
_COMMAND = re.compile(
    rf"""[ \t\n;]*+(?:{_PLACE}[ \t]*+(?:,[ \t]*+(?:{_PLACE}|[+~][0-9]++)[ \t]*+)?)?+!?[ \t]*+
    (?:
        s(?P<mark>[/|,:@%~+\#])
            (?:\\[^\n]|\[\^?\]?(?:\[:[a-z]+:\]|{_D}[^\[\]\\\n])*+\]|{_D}[^\\\[\n])*+(?P=mark)
            (?:\\[^\n]|{_D}[^\\\n])*+(?P=mark)[gpiI0-9]*+
        |y/(?:\\[^\n]|[^\\/\n])*+/(?:\\[^\n]|[^\\/\n])*+/
        |[qQ][ \t]*+[0-9]*+
        |[pPdDnNgGhHxz=]
    )
    [ \t]*+(?=[;\n}}]|\Z)
    |[ \t\n;]*+(?:{_PLACE}[ \t]*+(?:,[ \t]*+(?:{_PLACE}|[+~][0-9]++)[ \t]*+)?)?+!?[ \t]*+\{{
    |[ \t\n;]*+\}}[ \t]*+(?=[;\n}}]|\Z)
    |[ \t\n;]++\Z""",
    re.ASCII | re.VERBOSE,
)
"""A command of `sed` that reads and prints: no file is named, and nothing is run."""


def _prints(script: Word) -> bool:
    r"""Say whether a script of `sed` only prints.

    >>> [_prints(Word(text)) for text in ("1,5p", "/a/{s/b/c/g;p}", "w x", "s/a/b/w x", "1e date")]
    [True, True, False, False, False]
    """
    at = 0
    while at < len(script.text):
        command = _COMMAND.match(script.text, at)
        if command is None:
            return False
        at = command.end()
    return not script.loose


def _sed(given: Given) -> bool:
    operands, options = given
    scripts = [value for name, value in options if name in {"-e", "--expression"}]
    return all(map(_prints, scripts or operands[:1]))


_SUITES: Final = word_set("all ci e2e fast integration types unit")
"""What may stand behind `test:` in the name of a script; `test:deploy` is none."""

_TEST_FILE = re.compile(r"[\w./-]*(?:test|spec)[\w./-]*\Z", re.ASCII)


def _scripts(given: Given) -> bool:
    """Allow `npm test` and `npm run test`, with names of tests."""
    operands = [word.text for word in given[0]]
    if operands[:1] == ["run"]:
        del operands[0]
    name, colon, suite = "".join(operands[:1]).partition(":")
    named = name == "test" and (suite in _SUITES if colon else True)
    return named and all(
        (_TEST_FILE.match(text) and text[0] != "-") or text in _PASSED for text in operands[1:]
    )


_PASSED: Final = word_set("--bail --ci --run --runInBand --verbose --watch=false")


def _filters(given: Given) -> bool:
    """Look at what `cargo test` passes on: names of tests, and some options."""
    return all(
        word.text[:1] != "-"
        or word.text in {"--exact", "--ignored", "--include-ignored", "--list", "--nocapture"}
        or re.match(r"(?:-q|--quiet|--show-output|--test-threads=[0-9]+)\Z", word.text)
        for word in given[0]
    )


def _no_plugin(given: Given) -> bool:
    """Of plugins `pytest` may only leave some out, and no word names a file of arguments."""
    operands, options = given
    texts = [word.text for word in (*operands, *(value for _, value in options))]
    plugins = [value.text for name, value in options if name == "-p"]
    return all(text[:1] != "@" for text in texts) and all(
        text.startswith("no:") for text in plugins
    )


_FORMATS: Final = """
    -p -u -s -a -b -w -z -R -r -c -m -q -n= -S= -G= -U? -M? -C? -B? -l=
    --oneline --stat? --shortstat --numstat --dirstat? --summary --compact-summary --patch
    --no-patch --patch-with-stat --patch-with-raw --raw --name-only --name-status --graph
    --decorate? --no-decorate --all --branches? --tags? --remotes? --author= --committer= --grep=
    --since= --until= --after= --before= --max-count= --skip= --format? --pretty? --abbrev-commit
    --no-abbrev-commit --abbrev? --date= --reverse --merges --no-merges --first-parent --follow
    --cached --staged --merge-base --color? --no-color --word-diff? --word-diff-regex=
    --color-words? --color-moved? --ignore-space-change --ignore-all-space --ignore-blank-lines
    --ignore-space-at-eol --ignore-cr-at-eol --unified? --inter-hunk-context= --function-context
    --diff-filter= --find-renames? --find-copies? --find-copies-harder --no-renames --minimal
    --patience --histogram --diff-algorithm= --check --exit-code --quiet --relative? --no-index
    --no-ext-diff --no-textconv --no-prefix --full-index --binary --text --submodule?
    --ignore-submodules? --topo-order --date-order --author-date-order --left-right --cherry
    --cherry-pick --cherry-mark --simplify-by-decoration --full-history --all-match --invert-grep
    --regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --pickaxe-all
    --pickaxe-regex --walk-reflogs --parents --children --boundary --ancestry-path --source
    --no-notes --glob= --exclude= -E -F -P -i -g -t
"""
_GIT: Mapping[str, _Form] = MappingProxyType(
    {
        "log": _form(f"{_FORMATS} -L="),
        "diff": _form(_FORMATS),
        "show": _form(f"{_FORMATS} -L="),
        "status": _form(
            "-sbvz -u? --short --branch --porcelain? --long --verbose --show-stash --null "
            "--untracked-files? --ignored? --ignore-submodules? --ahead-behind --no-ahead-behind "
            "--renames --no-renames --find-renames? --column? --no-column"
        ),
    }
)

_GREP = _form(
    """
    -EFGPivywxcLlqsobHhnTUzZraIRu -V -e= -f= -m= -A= -B= -C= -d= -D= --regexp= --file=
    --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count --color?
    --colour? --files-without-match --files-with-matches --max-count= --only-matching --quiet
    --silent --no-messages --byte-offset --with-filename --no-filename --label= --line-number
    --initial-tab --null --null-data --after-context= --before-context= --context= --text
    --binary-files= --exclude= --exclude-from= --exclude-dir= --include= --recursive
    --dereference-recursive --directories= --devices= --line-buffered --binary --perl-regexp
    --extended-regexp --fixed-strings --basic-regexp --version
    """,
    globs=True,
)

_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "cat": _form(
            "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank "
            "--show-tabs --show-nonprinting",
            globs=True,
        ),
        "head": _form("-qvz -n= -c= --lines= --bytes= --quiet --silent --verbose", globs=True),
        "tail": _form(
            "-fFqvzr -n= -c= -b= -s= --lines= --bytes= --quiet --silent --verbose --follow? "
            "--retry --pid= --sleep-interval=",
            globs=True,
        ),
        "wc": _form(
            "-cmlLw --bytes --chars --lines --words --max-line-length --files0-from=", globs=True
        ),
        "ls": _form(
            """
            -aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I= -w= -T= --all --almost-all --author --escape
            --color? --classify? --directory --file-type --format= --full-time
            --group-directories-first --no-group --human-readable --si --dereference --hide=
            --ignore= --indicator-style= --inode --kibibytes --numeric-uid-gid --literal
            --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style=
            --width= --zero
            """,
            globs=True,
        ),
        "grep": _GREP,
        "egrep": _GREP,
        "fgrep": _GREP,
        "rg": _form(
            """
            -ivwxcnNlLoqsSuUFHIp0aP -e= -f= -g= -t= -T= -A= -B= -C= -m= -r= -M= -E= -j= -d= --files
            --hidden --no-ignore --no-ignore-vcs --glob= --iglob= --type= --type-not= --type-list
            --ignore-case --smart-case --case-sensitive --fixed-strings --word-regexp
            --line-regexp --count --count-matches --files-with-matches --files-without-match
            --line-number --no-line-number --heading --no-heading --with-filename --no-filename
            --only-matching --context= --after-context= --before-context= --max-count=
            --max-depth= --max-columns= --max-filesize= --multiline --multiline-dotall --pcre2
            --json --vimgrep --color= --colors= --stats --sort= --sortr= --trim --replace=
            --regexp= --file= --invert-match --follow --null --text --quiet --column --pretty
            --no-messages --encoding= --threads= --unrestricted --no-config --passthru --crlf
            """
        ),
        "find": _form(
            """
            -H -L -P -E -X -x -print -print0 -ls -prune -empty -depth -daystart -follow -mount
            -xdev -noleaf -not -a -o -and -or -true -false -quit -readable -writable -executable
            -nouser -nogroup -name= -iname= -path= -ipath= -wholename= -iwholename= -lname=
            -ilname= -regex= -iregex= -regextype= -type= -xtype= -maxdepth= -mindepth= -size=
            -mtime= -atime= -ctime= -mmin= -amin= -cmin= -used= -newer= -anewer= -cnewer= -newermt=
            -newerat= -newerct= -samefile= -inum= -links= -user= -group= -uid= -gid= -perm=
            -fstype= -printf=
            """,
            whole=True,
        ),
        "tree": _form(
            """
            -a -d -l -f -x -N -Q -p -u -g -s -h -D -F -q -v -t -c -U -r -i -A -S -n -C -X -J -L=
            -P= -I= --noreport --dirsfirst --filesfirst --prune --gitignore --du --si --inodes
            --device --matchdirs --ignore-case --nolinks
            """,
            whole=True,
        ),
        "git": _form("--no-pager -P", first=True),
        "sed": _form(
            "-nErsuz -e= --expression= --quiet --silent --regexp-extended --separate --unbuffered "
            "--null-data",
            ordered=True,
            rest=_sed,
        ),
        "sort": _form(
            "-bdfghiMnrRVcCmsuz -k= -t= -S= --reverse --unique --numeric-sort --version-sort "
            "--human-numeric-sort --general-numeric-sort --month-sort --random-sort --ignore-case "
            "--ignore-leading-blanks --dictionary-order --stable --check? --key= "
            "--field-separator= --zero-terminated"
        ),
        "uniq": _form(
            "-cdDuiz -f= -s= -w= --count --repeated --all-repeated? --unique --ignore-case "
            "--skip-fields= --skip-chars= --check-chars= --zero-terminated --group?",
            ordered=True,
            rest=_one,
        ),
        "cut": _form(
            "-snz -f= -d= -c= -b= --fields= --delimiter= --characters= --bytes= --complement "
            "--only-delimited --output-delimiter= --zero-terminated"
        ),
        "tr": _form("-cCdst --complement --delete --squeeze-repeats --truncate-set1"),
        "nl": _form("-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering="),
        "tac": _form("-br -s= --before --regex --separator="),
        "rev": _form(""),
        "column": _form("-tx -s= -c= --table --separator="),
        "jq": _form(
            "-rceSsnjaMC --raw-output --compact-output --exit-status --sort-keys --slurp "
            "--null-input --join-output --ascii-output --monochrome-output --color-output "
            "--raw-input --tab"
        ),
        "diff": _form(
            "-urqsiwbBEyaNcepnt -U= -W= -C= --unified? --brief --recursive --color? --ignore-case "
            "--ignore-all-space --ignore-space-change --ignore-blank-lines --side-by-side "
            "--exclude= --new-file --text --report-identical-files --suppress-common-lines"
        ),
        "cmp": _form("-lsb -n= -i= --verbose --silent --quiet --print-bytes --bytes="),
        "printf": _form("", first=True),
        "pwd": _form("-LP"),
        "cd": _form("-LP"),
        "true": _form(""),
        "false": _form(""),
        "basename": _form("-az -s= --multiple --suffix= --zero"),
        "dirname": _form("-z --zero"),
        "stat": _form("-Lt -c= --format= --printf= --dereference --terse"),
        "file": _form("-biLhksr --brief --mime --mime-type --mime-encoding --dereference"),
        "du": _form(
            "-ashckmxLDH -d= --max-depth= --summarize --human-readable --all --total "
            "--apparent-size --exclude="
        ),
        "df": _form("-hHikTa -t= --human-readable --inodes --type= --total"),
        "which": _form("-a"),
        "type": _form("-atpPf"),
        "sleep": _form(""),
        "date": _form(
            "-uR -d= -r= -I? --utc --universal --date= --reference= --iso-8601? --rfc-3339=",
            rest=_shown,
        ),
        "pytest": _form(
            """
            -qvxsl -k= -m= -n= -r= -W= -p= --tb= --maxfail= --exitfirst --quiet --verbose
            --last-failed --lf --failed-first --ff --new-first --nf --stepwise --sw
            --collect-only --co --no-header --no-summary --showlocals --color= --durations=
            --markers --fixtures --strict-markers --disable-warnings --timeout= --no-cov
            """,
            rest=_no_plugin,
        ),
        "npm": _form("-s --silent", rest=_scripts),
        "pnpm": _form("-s --silent", rest=_scripts),
        "cargo test": _form(
            """
            -qvr -p= -F= -j= --quiet --verbose --lib --bins --bin= --tests --test= --doc --examples
            --example= --benches --all --all-targets --workspace --package= --exclude= --features=
            --all-features --no-default-features --release --no-fail-fast --no-run --locked
            --offline --frozen --jobs=
            """,
            rest=_filters,
        ),
        "go test": _form(
            "-v -race -short -failfast -json -cover -run= -count= -timeout= -parallel= -p= -skip= "
            "-tags= -cpu= -bench= -benchtime= -shuffle= -list=",
            whole=True,
        ),
    }
)
"""How programs may be called that read, or test."""


def _reads(words: Sequence[Word]) -> bool:
    program, rest = words[0].text.lower(), words[1:]
    if program == "echo":
        return True
    if " " in program:
        return False
    if program in {"cargo", "go"} and rest:
        program, rest = f"{program} {rest[0].text}", rest[1:]
    form = _FORMS.get(program)
    given = _given(form, rest) if form else None
    if form is None or given is None or not form.rest(given):
        return False
    if program != "git":
        return True
    inner = given[0]
    action = _GIT.get(inner[0].text) if inner else None
    return action is not None and _given(action, inner[1:]) is not None


def only_reads(line: str) -> bool:
    """Say whether a command line changes nothing, tests aside.

    What it can't see through counts as a change: other programs and options, files that are
    written, what a shell puts in, and lines of more than 20,000 characters.

    Args:
        line: what a shell runs.

    >>> only_reads("git log -1 | head -5 2>&1"), only_reads("cat a > b"), only_reads("ls; rm x")
    (True, False, False)
    """
    found = commands(line)
    return bool(found) and all(map(_reads, found or ()))
