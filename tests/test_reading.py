"""Commands that only read: what is known to change nothing, and that it does change nothing."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxalgebra.compaction.shell import READ
from ctxalgebra.shaping.effort import is_routine
from ctxalgebra.shaping.lines import commands
from ctxalgebra.shaping.reading import only_reads

BASH = shutil.which("bash")
FILES = ("a", "b", "s", "x", "-i", "d/a", "sub/test_a.py")


def table(text, *more):
    """List the commands of a text: two blanks or a line end stand between them."""
    return [*re.split(r" {2,}|\n", text.strip()), *more]


READS = table(
    r"""
sed -n 1,5p a  sed -n '$p' a  sed -n '/b/,/c/p' a  sed -e p -e 's/a/b/g' a  sed --expression=p a
sed --expression p a  sed -nE 's/(a)|(b)/\2/p' a  sed 's|a/b|c|;s,x,y,2' a
sed -n '/a/{s/b/c/;p;q}' a  sed -n '1~2p;$!N;D' a  sed 's|[^/]*$||' /dev/null
sed 's#[[:alpha:]]#x#g' a  sed 'y/abc/xyz/' a  sed -n '1!G;h;$p' a  sed --quiet '1,+1p' a
sed -s -n '$=' a  sed '' a  sed -- p a  sed 'p ; ' a  sed 's/we/wx/;s/e w/w e/' a
sed "s/x/a b/" a  sed '0,/b/d' a  sed 'q 5' a  sed -z 's/\n/,/g' a  head -5 a  head -n 5 a
head -n5 a  head --lines=2 a b  tail -n +2 a  tail -c5 a  cat -n a  cat -- a  cat a 2>/dev/null
cat < a  cat a 2>&1  cat a &>/dev/null  cat a >/dev/null  cat a >&2  cat a; cat b;
grep -rn --include=*.py x .  grep -e a -f s -C3 .  grep "foo$" a  grep -rnE 'a|b' .  grep -- -i a
grep --color=always --max-count=2 b a  grep b a  wc -l  grep -c b *  egrep a a  ls -la  ls *
ls --sort=size  ls -I x  ls \; rm x  ls 'a' ';' rm  ls a\ b  ls {a,b}
find . -name '*.py' -not -path './d/*'  find . -newermt 2020-01-01 -o -size +10k -print0
find . -maxdepth 1 -type f -printf '%p\n'  find . ! -name a
find . \( -name a -o -name b \) -prune  find -L d -mtime -1  wc -cl a b  sort -u a
sort -k1,1 -t: -rn a  sort --reverse a  uniq -c a  cat a | sort | uniq -d -f1  cut -d: -f1 a
cut --fields=1 a  tr a-z A-Z < a  nl -ba a  tac a  rev a  column -t a  diff a b  diff -u a b
diff --unified=1 a b  cmp -s a b  echo ---  echo *  printf '%s\n' a  pwd  ls && cd d && cat a
ls; true  cat x || false  basename d/a  dirname d/a  stat -c %s a  file -b a  du -sh .  df -h .
which cat  type cat  date +%F  date -u  ls; sleep 0  jq -r .a x  jq -c . x  head "-n" 1 a
CAT a  git status --porcelain -uno  git status -sb  git log -5 --oneline
git log -Gx --author=me --since yesterday -- a  git --no-pager log -p -U1 -M90%
git diff --stat HEAD~1  git diff --cached -w -- a  git show HEAD:a  git log --format='%h %s' -n2
git log -L1,2:a  rg -n x src  rg -g '*.py' --hidden -C 2 x  rg x -r y  tree -L 2 -a
tree -I node_modules --dirsfirst  pytest -q tests  pytest -xvs -k 'a or b' tests/a.py::test_b
pytest -p no:cacheprovider --tb=short  npm test  npm run test:unit
pnpm run test -- a.test.ts --ci  npm -s test  cargo test  cargo test -p a x
cargo test --release -- --nocapture --test-threads=1 name  go test ./...
go test -run X -v -count=1 ./a  go test -run=X -race ./...  pnpm test  npm run test -- --run
""",
    "cat a \\\nb",
    "cat \"a\"'' b\\\na",
    "cat a 2\\\n>\\\n/dev/nu\\\nll",
    "ca\\\nt a |\\\n wc",
    *table(
        "head -n -5 a  find . -size -10k  find . -mtime -1  git diff -U5  head -n 1{,} a  ls -I *"
    ),
    *table(
        "git diff --unified  git log --format=%h  git log -L 1,2:a  cat -  sort -k 2 -  cut -f -2 a"
    ),
    'cat "a\\\n"',
)
CHANGES = table(
    r"""
sed -i p a  sed -ibak p a  sed -ni p a  sed --in-place p a  sed --in-place=.b p a
sed --in-plac p a  sed --i p a  sed --in p a  sed -n --expression='w x1' a
sed --expression='1e rm y' a  sed --exp=p a  sed --file=s a  sed --file s a  sed -f s a
sed -nf s a  sed -es/a/b/w\ x2 a  sed s/a/b/we a  sed 's/Z/b/wx9' a  sed 's/a/b/gw x' a
sed '1w x' a  sed 'p;w x' a  sed '$!w x' a  sed '/a/,/b/w x' a  sed '\,a,w x' a  sed 's,a,b,w x' a
sed '1W x' a  sed -n -- 'w x' a  sed -l 5 'w x' a  sed p -i a  sed 'w x' -e p a
sed 's/[/]/x/w y/' a  sed 's/a/[/;w x' a  sed 'r s' a  sed '1i x' a  sed 'R s' a
sed -e 'a\' -e 'w x' a  sed s/a*/b/ a  sed -e s/{a,w}/b/ a  sed -es/a*=/b/p a  sed 'b;w x' a
sed ':a;w x' a  sed 'y/a/b/w x' a  sed p *  sed 'e' a  sed 's/.*/ls/e' a  sed -n 5{p,q} a
sed '#n' a  sed '} w x' a  sed -e  sed --expression  sed --quiet=1 p a  sed --expression= a
find . -delete  find . -del  find . -- -delete  find -- . -delete  find . -exec rm {} +
find . -ok rm x  find . -execdir rm x  find . -okdir rm x  find . -fprint x1  find . -fprintf x1 a
find . -fls x1  find *  find . -fprint0 x1  find . -name  find . -name {a,-delete}  find . -na x
git diff --output=x  git log --outp=x  git diff --textconv  git diff --ext-diff  git -C . log
git -c a=b log  git --git-dir=x log  git -p log  git  git push  git logs  git log --show-signature
git log *  git status --porcelai  git fetch; git log  rg --pre=rm x  rg --p=rm x  rg --pre rm x
rg --hostname-bin=x a  rg -z x  rg x *  tree -o x  tree -ao x  tree -R -L 1  tree --output=x
tree -L o x -o y  tree -- -o x  sort -o x a  sort -ox a  sort -uo x a  sort --output=x a
sort --out=x a  sort -T d a  sort --compress-program=rm a  sort {-o,x1} a  cat a | uniq - x1
uniq a x1  uniq a*  uniq a -c  uniq {a,x1}  date -s 2020-01-01  date 01010101  date --se=1
file -C -m a  jq -f a x  printf -v PATH x  test -v 'a[$(rm x)]'  [ -f a ]  tee x  xargs rm  sh s
env cat a  npm test -- -u  npm test -- --updateSnapshot  npm run test:deploy
npm run test:deploy:unit  npm run  npm  npm test --prefix /x  npm run deploy  npm run test deploy
npm t  npm test -- {test,-u}  npm test -- *  npm test -- test{,-u}  npm -s run tests
pytest --basetemp=/home  pytest --snapshot-update  pytest -p evil  pytest --basetem=/x
pytest @args  pytest --junitxml=x  pytest -c x  pytest -o a=b  pytest --pdb  pytest -qp evil
pytest -p{no:=,evil}  pytest --cov-report=xml:x  cargo test --target-dir x  cargo
cargo test -- --bless  cargo +nightly test  cargo test --config x  cargo test -- {a,--bless}
cargo publish  go test -exec rm ./...  go test -o x ./...  go test -c  go test -coverprofile=x
go test . -args -u  go vet  go test -toolexec=rm ./...  go test --exec=rm  go test -ex=rm
git diff -U --output=x1  git diff --unified --output=x1  git log --format --output=x1
git diff -L --output=x1  git diff -L 1,2:a  git log -pn --output=x1  git log -S --output=x1
git log -S -L 1,2:a -S --output=x1  git log -S -- --output=x1  cargo test -p --target-dir=x1
grep -e -a a  tree -L --output=x1  git log -S{a,} -G --output=x1  git log -S{a,} -G x
git log -M{1,}  git log --author=a* x  git log --author a*  uniq -w 1{,} x1
rg -e{a,} -g --pre=./evil foo  rg -e{a,} x  rg -g a* x  find . -name a*  sort -k1{,} a
go test -run a* .  pytest -k @args
pytest -k@args  pytest -m @args  pytest -W @args  pytest --tb=@args  pytest -- @args
pytest -k a '@args'  'go test' ./...  'cargo test'  'go test'  "go test" -v
cat ${x:=y}  cat $x  cat "$x"  cat "${x:=y}"  cat $((x=1))  cat $'a'  cat $"a"  cat $(rm x)
cat `rm x`  cat "$(rm x)"  cat "`rm x`"  cat <(rm x)  cat >(rm)  cat <<EOF  cat <<< x  cat <> y
cat a > y  cat a >y  cat a >> y  cat a 1> y  cat a >| y  cat a &> y  cat a >&y  cat a >&2x
cat a >/dev/nullx  cat a > /dev/null/../y  cat a >\/dev/null2  cat < /dev/tcp/h/80  cat a & rm x
cat a &  (cat a)  { cat a; }  ls(){ rm x; }; ls  function ls { rm x; }; ls
if cat a; then rm x; fi  ! cat a  time cat a  alias ls=rm; ls  export A=1 && ls  A=1 cat a
./cat a  /tmp/cat a  cat.exe a  cat-x a  cat a | tee x  cat a | sh  cat a|sudo rm x
cat a # ' ; rm x  ls !(x)  cat 'a  cat "a  cat "a$(rm x)b"
""",
    "sed '1{w x\n}' a",
    'sed "s/a/b\\\\\nw x/" a',
    "cat\u000ba",
    "ls\r",
    "cat a\\",
    "head -n",
    "head -vn",
    "head --lines",
    "git log -S 2\\\n>>/dev/null -G --output=x1",
    "git log -S 2\\\n>/dev/null a -G --output=x1",
    "uniq a 2\\\n>/dev/null x1",
    "cat a >\\\n> y",
    "cat <\\\n<EOF",
    "cat $\\\n(rm x)",
    "cat \\\n# ' ; rm x",
    'cat "$\\\nx"',
)


def runs(line):
    """Say whether the programs of a line are here, and end by themselves."""
    found = commands(line) or ()
    names = {each[0].text for each in found} - {"cd", "type"}
    if names & {"tail", "git", "npm", "pnpm", "cargo", "go", "pytest"}:
        return "tail" in names and "-f" not in line and "-F" not in line and "retry" not in line
    return all(map(shutil.which, names))


def scratch(folder):
    for name in FILES:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a:b c\nb\n" * 3)
    return folder


def state(folder):
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


def run(folder, line):
    subprocess.run(
        [BASH, "-c", line],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )


@pytest.mark.parametrize("line", READS)
def test_what_is_known_to_read_is_read(line):
    assert only_reads(line)


@pytest.mark.parametrize("line", CHANGES)
def test_w40_what_is_not_known_to_read_is_no_routine(line):
    assert not only_reads(line)
    assert not is_routine("bash", {"command": line}, "")


# Thousands of commands that are made of parts


def words(text):
    return text.split()


PROGRAMS = words(
    """
cat head tail wc ls grep egrep rg find tree sed sort uniq cut tr nl tac rev column jq diff cmp stat
file du df date basename dirname pwd printf which
"""
)
OPTIONS = words(
    r"""
-i --in-place --in-plac --i -o -ox1 --output=x1 --out=x1 -n -e -es/a/b/wx1 -w -W -f -s -a -r -R
-C -d -p -x1 -O -D -t -T. -k1 -c -b -u -z -E -5 +5 -- - --expression=wx1 --file=s --help --version
-delete -fprint -fls -exec -print -name -ls --pre=touch --hostname-bin=touch --color=never --z= -=
--compress-program=touch --files0-from=a --output-delimiter=x1 -m -ni -in -nw --separate --debug
"""
)
OPERANDS = ["", "a", "a x1", "x1", "'w x1' a", "p a", "'1w x1' a", "-- -i", "a -i b", "*", "d"]
MADE = [" ".join(filter(None, parts)) for parts in product(PROGRAMS, OPTIONS, OPERANDS)]


def test_w40_short_forms_of_options_that_write_are_known_nowhere():
    """Nothing that is made up counts as reading where a part of it could write."""
    assert len(MADE) > 10_000
    writes = re.compile(
        r"sed .*(?:-i|--i|w\\|'1?w |-f|-nw)|find .*(?:-delete|-fprint|-fls|-exec)"
        r"|sort .*(?:-o|--out|--comp)|tree .*(?:-o|-R|--out)"
        r"|uniq (?:-[cduiz] )?a x1\Z|rg .*(?:--pre|--host)|date (?:-s|-u a|a)|file -C"
    )
    wrong = [line for line in MADE if writes.match(line) and only_reads(line)]
    allowed = {line for line in wrong if re.match(r"sed|find|uniq", line) and " -- -i" in line}
    assert not [line for line in wrong if line not in allowed]


@pytest.mark.skipif(not BASH, reason="there is no bash to run commands with")
def test_w40_what_is_known_to_read_changes_nothing_when_it_is_run(tmp_path):
    folder = scratch(tmp_path)
    before = state(folder)
    made = [line for line in MADE if only_reads(line)]
    lines = [*filter(runs, READS), *filter(runs, random.Random(5).sample(made, 300))]
    assert len(lines) > 200
    for line in lines:
        run(folder, line)
        assert state(folder) == before, line


PARTS = table(
    r"""
w  e  W  s/a/b/  s/a/b  s|a|b|  p  p  p  q  1  $  /a/  /  ,  [  ]  \  ;  ;  {  }
!  g  I  [/]  []/]  #  N  +1  =  y/a/b/  n  r  a\  ~2  z  :x  bx  \|  [:alpha:]  &  x1  /b/w
""",
    " ",
    "\n",
    "w x1",
    "e ls",
)


def taken_scripts():
    draw = random.Random(11)
    made = {"".join(draw.choices(PARTS, k=draw.randint(1, 7))) for _ in range(30_000)}
    taken = sorted(script for script in made if only_reads(f"sed -n '{script}' a"))
    assert 200 < len(taken) < len(made) // 3
    return draw.sample(taken, 200)


def test_w40_no_script_of_sed_that_is_taken_names_a_file_or_runs_something():
    for script in taken_scripts():
        assert not re.search(r"\A[0-9$!,;{ \n]*(?:[aberRwW:]|s/a/b/[ew])", script)


@pytest.mark.skipif(not (BASH and shutil.which("sed")), reason="there is no sed to run")
def test_w40_scripts_of_sed_that_are_taken_write_nothing(tmp_path):
    folder = scratch(tmp_path)
    before = state(folder)
    for script in taken_scripts():
        run(folder, f"sed -n '{script}' a")
        assert state(folder) == before, script


@pytest.mark.skipif(not BASH, reason="there is no bash to ask")
def test_words_are_those_that_a_shell_makes():
    draw = random.Random(3)
    pieces = [
        *"a'\"\\$# \tb=é!^%-/12+,:@]",
        "'x y'",
        '"a b"',
        "\\\n",
        "\\$",
        '"\\$x"',
        '"a\\"b"',
        '"a\\\nb"',
        "2\\\n>/dev/null",
        "2>\\\n&1",
        "\\\\",
        "'\\\n'",
    ]
    pieces += ["2>&1", ">/dev/null", "</dev/null", "&>/dev/null", '"$"', "'\\'"]
    told = 0
    for _ in range(3_000):
        line = "cat " + "".join(draw.choices(pieces, k=draw.randint(1, 9)))
        found = commands(line)
        if found and len(found) == 1 and told < 250:
            told += 1
            out = subprocess.run(
                [BASH, "-c", "exec 9>&1; cat() { printf '%s\\0' cat \"$@\" >&9; }\n" + line],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            assert out.stdout.decode().split("\0")[:-1] == [word.text for word in found[0]], line
    assert told == 250


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_w40_any_script_has_an_answer(script):
    line = "sed -n '" + script + "' a"
    assert only_reads(line) in (True, False)
    assert not only_reads(f"{line} -i")


@given(st.text(st.sampled_from("ab -'\"\\$`#|;&<>(){}*?[]=!~/\n\t0129\u00e9\ud800"), max_size=40))
def test_any_line_is_read_or_not(line):
    found = commands(line)
    assert found is None or all(found)
    assert only_reads(line) in (True, False)


def test_long_lines_are_not_read():
    assert only_reads("cat " + "a" * (READ - 4))
    assert not only_reads("cat " + "a" * (READ - 3))
    assert only_reads("cat " + "a*" * (READ // 2 - 2))
    assert not only_reads("sed -n '" + "[" * (READ - 9) + "'")
    assert not only_reads("sed -n '" + "/a" * (READ // 2 - 9) + "'")


def test_words_are_as_a_shell_makes_them():
    (words,) = commands('a \'b c\'"d\\"\\\ne\\x"\\ f g* {h \\\ni#j')
    assert [word.text for word in words] == ["a", 'b cd"e\\x f', "g*", "{h", "i#j"]
    assert [(word.loose, word.open) for word in words[2:]] == [
        (True, False),
        (True, True),
        (False,) * 2,
    ]
    (words,) = commands("a 'b'2>&1 12>&2 c3</dev/null 4<d e\\\n5>/dev/null")
    assert [word.text for word in words] == ["a", "b2", "c3", "e5"]
    (words,) = commands("a\\\\\\\n'\\\n' 2\\\n>/dev/null b 3\\\n4")
    assert [word.text for word in words] == ["a\\\\\n", "b", "34"]
    assert commands(" ; \n") == ()
    assert not only_reads("")
