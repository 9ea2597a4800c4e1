"""Scripts are followed as a shell would, and nothing of them is run."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.shell.reader import read_script
from documents.shell.syntax import ShellError
from documents.shell.text import ShellScript


def read(text: str, given: dict[str, str] | None = None, files: dict[str, str] | None = None) -> ShellScript:
    return read_script(text, name="run.sh", given=given or {}, files=files or {})


def words(text: str, **given: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in read(text, given).commands]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("TP=8\nrun --tp $TP ${TP}x", ["run", "--tp", "8", "8x"]),
        ('A="--x 1 \\\n  --y 2"\nrun $A', ["run", "--x", "1", "--y", "2"]),
        ('A="--x 1"\nrun "$A"', ["run", "--x 1"]),
        ("A=(--x 1 # why\n  --y '2 3')\nrun ${A[@]} end", ["run", "--x", "1", "--y", "2", "3", "end"]),
        ("A=(--x '2 3')\nrun \"${A[@]}\"", ["run", "--x", "2 3"]),
        ("A=(a b)\nA+=(c)\nrun ${A[*]} ${#A[@]} ${A[1]}", ["run", "a", "b", "c", "3", "b"]),
        ('A="a"\nA+=" b"\nrun $A', ["run", "a", "b"]),
        ("run ${N:-4} ${N-5} ${N:+6}", ["run", "4", "5"]),
        ("N=\nrun ${N:-4} ${N-5}x", ["run", "4", "x"]),
        (": ${N:=4}\nrun $N", ["run", "4"]),
        ("A=3\nB=4\nrun $((A*$B+2)) $((17/A%4)) $(( (A+1)**2 ))", ["run", "14", "1", "16"]),
        ("A=$((2*$((3+1))))\nrun $A $((-7/2)) $((7>3))", ["run", "8", "-3", "1"]),
        ("A=010\nrun $((A)) $((010+0x1F)) $((2**3**2)) $((-2**2)) $((0))", ["run", "8", "39", "512", "4", "0"]),
        ("run a\\ b 'c $d' \"e \\\"f\\\" \\$g\"", ["run", "a b", "c $d", 'e "f" $g']),
        ("run a \\\n  b # c d\n", ["run", "a", "b"]),
        ("X=1 run a > log 2>&1", ["run", "a"]),
        ("cat <<EOF >/dev/null\nrun 'no\nEOF\nrun yes", ["run", "yes"]),
        ("f() { run \"$1\" $#; }\nf 'a b' c", ["run", "a b", "2"]),
        ("function f { local X=$1; run $X; }\nf 3", ["run", "3"]),
        ("for n in 1 2; do N=$((N+n)); done\nN=${N:-0}; run x", ["run", "x"]),
        ("L=''\nfor n in 1 2; do L=\"$L $n\"; done\nrun $L", ["run", "1", "2"]),
        ("set -- a b\nshift\nrun $1", ["run", "b"]),
        ("run 'a\nb'", ["run", "a\nb"]),
        ("bash measure.sh -- bash -c 'set -e\nrun --tp 8 \\\n --pp 2'", ["run", "--tp", "8", "--pp", "2"]),
        ("case tp in t*) ;; esac\ncase $X in a) Y=1;; *) Y=2;; esac\nX=a; case $X in a|b) Y=3;; esac; run $Y", ["run", "3"]),
    ],
)  # fmt: skip
def test_words_are_those_that_a_shell_passes(script: str, expected: list[str]) -> None:
    found = [command for command in words(script) if command[0] == "run"]
    assert found == [expected]


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ('[ "$T" = fp8 ]', True), ('[[ $T == "bf16" ]]', False), ("[ -n $T ]", True), ("[ -z '' ]", True), ("(( N > 3 ))", True),
        ("[[ $N -ge 4 && $T != x ]]", True), ("[ $N -lt 4 -o $T = fp8 ]", True), ("! [ $N -eq 4 ]", False), ("true", True),
        ('[[ "$T" == "x" ]] || [[ "$N" == "4" ]]', True), ("[[ ! ( $N == 4 ) ]]", False),
        ('[[ "${BASH_SOURCE[0]}" == "$0" ]]', True),
        ("[ -z $UNSET ]", None), ("[ -f x ]", None), ("[[ $T == fp* ]]", None), ("[[ $T =~ fp ]]", None), ("grep x y", None),
        ("[ 04 -eq $N ]", None),
    ],
)  # fmt: skip
def test_conditions_are_decided_where_the_script_decides_them(condition: str, outcome: bool | None) -> None:
    script = read(f"T=fp8\nN=4\nif {condition}; then X=yes; else X=no; fi\nrun $X")
    (command,) = [command for command in script.commands if command.words[0].text == "run"]
    if outcome is None:
        assert command.words[1].unknown
        assert [remark.line for remark in script.remarks] == [3]
    else:
        assert [word.text for word in command.words] == ["run", "yes" if outcome else "no"]
        assert script.remarks == ()


def test_what_an_undecided_branch_adds_is_unknown_and_the_rest_is_kept() -> None:
    script = read('A=(--x 1)\nB="--y 2"\nif [ -f x ]; then A+=(--z); B="$B --w"; fi\nrun ${A[@]} $B')
    found = [(word.text, bool(word.unknown)) for word in script.commands[-1].words]
    assert found[:3] == [("run", False), ("--x", False), ("1", False)]
    assert found[3][1]
    assert found[4:6] == [("--y", False), ("2", False)]
    assert found[6][1]
    assert "sets A, B" in script.remarks[0].reason


def test_a_branch_that_ends_with_an_error_is_a_check() -> None:
    script = read('X=1\nif [ -z "$D" ]; then X=2; exit 1; fi\nif [ 1 = 1 ]; then X=3; exit 2; fi\nrun $X')
    assert [word.text for word in script.commands[-1].words] == ["run", "1"]


def test_nothing_is_followed_behind_the_end_of_a_script() -> None:
    assert words("run a\nexit 0\nrun b") == [["run", "a"]]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("run $X", "does not set X"), ("run $1", "argument 1"), ('run "$@"', "--set 1=VALUE"),
        ("run $(date)", "scripts are not executed"),
        ("run `date`", "scripts are not executed"), ("run ${X%.py}", "edits text"), ("run ${!X}", "edits text"),
        ("run $((X*2))", "does not set X"),
        ("read X\nrun $X", "read in line 1"), ("X=<your path>\nrun $X", "placeholder"), ("run {1,2}", "braces"),
        ("run <(date)", "process"), ("A[1]=2\nrun ${A}", "index"), ("while true; do X=1; done\nrun $X", "condition in line 1"),
    ],
)  # fmt: skip
def test_what_only_a_shell_could_tell_is_named_and_never_guessed(script: str, reason: str) -> None:
    word = read(script).commands[-1].words[1]
    assert reason in word.unknown


def test_values_of_the_environment_can_be_given() -> None:
    assert words("run $X ${Y:-2} $1", X="8", Y="9", **{"1": "z"}) == [["run", "8", "9", "z"]]
    assert words("if [ -z $X ]; then X=1; fi\nrun $X", X="8") == [["run", "8"]]
    assert words("if [ -f a ]; then X=1; fi\nrun $X", X="8") == [["run", "8"]]


def test_files_that_are_sourced_are_read_where_they_are_given() -> None:
    files = {"conf.sh": "TP=4\nreturn\nTP=5"}
    script = read('. "$DIR/conf.sh"\nsource other.sh\nrun $TP', files=files)
    assert [word.text for word in script.commands[-1].words] == ["run", "4"]
    assert [(remark.line, remark.reason) for remark in script.remarks] == [(2, "the file is not given; --with other.sh reads it")]


def test_every_word_knows_where_it_can_be_changed() -> None:
    text = 'TP=8\nA="\n  --tp ${TP} \\\n  --x=5"\nrun $A ${M:-1} $((TP*2))'
    tp, x, m, product = (read(text).commands[-1].words[index] for index in (2, 3, 4, 5))
    assert [text[place.start : place.end] for place in tp.places()] == ["8", "${TP}"]
    assert [text[place.start : place.end] for place in x.places()] == ["--x=5"]
    assert [text[place.start : place.end] for place in m.places()] == ["1", "${M:-1}"]
    assert [text[place.start : place.end] for place in product.places()] == ["$((TP*2))"]
    assert [word.line for word in (tp, x, m, product)] == [1, 4, 5, 5]


HOSTILE = {
    "doubled": ("a=xxxxxxxxxx\n" + "a=$a$a\n" * 60, "more than a launch script ever does"),
    "doubled array": ("a=(x x)\n" + "a=(${a[@]} ${a[@]})\n" * 60, "more than a launch script ever does"),
    "fork": (":(){ :|:& };:\n", "call each other"),
    "recursion": ("f() { f; }\nf\n", "call each other more than 16 deep"),
    "calls": ("".join(f"f{i}(){{ f{i + 1}; f{i + 1}; }}\n" for i in range(15)) + "f0\n", "commands are followed"),
    "sources itself": (". run.sh\n", "call each other"),
    "eval": ('x=1\neval "a \'b"\n', "line 2: the quote"),
    "eval of itself": ('E=\'eval "$E"\'\neval "$E"\n', "call each other more than 16 deep"),
    "doubled eval": ("A='echo x; '\n" + "A=$A$A\n" * 30 + 'eval "$A"\n', "more than a launch script ever does"),
    "text that starts itself": ("cat > a.sh <<'EOF'\nbash a.sh\nbash a.sh\nEOF\nbash a.sh\n", "call each other"),
    "open quote": ('\na="x\nb=1\n', "line 2: the quote"),
    "open single quote": ("a='x\nb=1\n", "the quote '"),
    "open backtick": ("a=`x\n", "the quote `"),
    "open brace": ("a=${x\n", "'${' is never closed"),
    "open array": ("a=(1 2\n", "'(' is never closed"),
    "open if": ("if true; then\nx\n", "'if' has no 'fi'"),
    "open case": ("case x in a) b ;;\n", "'case' has no 'esac'"),
    "open loop": ("for x in 1; do y\n", "'for' has no 'done'"),
    "open test": ("[[ a == b\n", "'[[' has no ']]'"),
    "open text": ("cat <<EOF\nx\n", "has no end"),
    "closes nothing": ("a=1\n)\n", "line 2"),
    "deep expansion": ("a=" + "${a:-" * 200, "nested deeper"),
    "deep commands": ("if true; then " * 3000, "nested deeper"),
    "deep negation": ("! " * 3000 + "x", "nested deeper"),
    "deep substitution": ('"$("' * 30000, "run.sh: line 1"),
    "deep arithmetic": ("a=$((" + "(" * 5000 + "1" + ")" * 5000 + "))\n", "nested deeper than 32"),
    "division": ("\n\na=$((1/0))\n", "line 3: $((1/0)) is a division by zero"),
    "power": ("a=$((9**999))", "exponent"),
    "long power": ("a=$((" + "1**" * 5000 + "1))", "nested deeper than 32"),
    "octal": ("a=$((08))", "line 1: $((08)) has 08, which is octal"),
    "overflow": ("a=$((2**62*4))", "64 bits"),
    "refers to itself": ("a=a\nb=$((a))\n", "nested deeper"),
    "loops": ("for i in 1 2 3 4 5 6 7 8 9; do " * 6 + "a=$a$i;" + " done;" * 6, "run.sh: line 1"),
    "long chain": ("x " + "&& x " * 30_000, "commands are followed"),
    "field separator": ("IFS=,\nrun $X", "IFS is set"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_malformed_scripts_are_refused_with_the_line_and_soon(name: str) -> None:
    text, sentence = HOSTILE[name]
    started_s = time.process_time()
    with pytest.raises(ShellError, match=r"^run\.sh: line \d+: ") as refused:
        read(text, files={"run.sh": text})
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert time.process_time() - started_s < 10


@given(st.text(alphabet="ab=$(){}[]<>|&;!\"'`\\ \n#0+-*/", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        read(text)
    except ShellError as refused:
        message = str(refused)
    else:
        return
    assert message.startswith("run.sh: line ")


NAMES = st.sampled_from(["A", "B", "C"])
PLAIN = st.text(alphabet="abc12-_.=,:/", min_size=1, max_size=6)
VALUES = st.one_of(
    PLAIN,
    PLAIN.map(lambda text: f"'{text} {text}'"),
    st.builds('"{} ${{{}}} \\\n {}"'.format, PLAIN, NAMES, PLAIN),
    st.builds("${{{}:-{}}}".format, NAMES, PLAIN),
    st.builds("$(({}*{}+{}))".format, st.integers(0, 99), st.integers(1, 9), st.integers(0, 9)),
    NAMES.map("${}".format),
    NAMES.map('"${}"'.format),
    NAMES.map('"${{L{}[@]}}"'.format),
    NAMES.map("${{L{}[@]}}".format),
    NAMES.map("${{#L{}[@]}}".format),
)
LINES = st.one_of(
    st.builds("{}={}".format, NAMES, VALUES),
    st.builds("{}+={}".format, NAMES, VALUES),
    st.builds("L{}=({} {})".format, NAMES, VALUES, VALUES),
    st.builds("L{}+=({})".format, NAMES, VALUES),
    st.builds('if [[ "${}" == "${}" ]]; then A={}; else B={}; fi'.format, NAMES, NAMES, PLAIN, PLAIN),
    st.builds("for x in {} {}; do C=$C$x; done".format, PLAIN, VALUES),
    st.builds('[ -z "${}" ] && {}={}'.format, NAMES, NAMES, PLAIN),
)
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="there is no Bash to compare with")
@given(lines=st.lists(LINES, max_size=8), last=st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_words_are_those_that_bash_itself_passes(lines: list[str], last: list[str]) -> None:
    text = "\n".join(["A=a", "B=", "C='c d'", "LA=(x 'y z')", "LB=()", "LC=('' w)", "set -f", *lines, f"print {' '.join(last)}"])
    assert BASH is not None
    shell = subprocess.run(
        [BASH, "-c", f"print() {{ printf '%s\\0' \"$@\"; }}\n{text}"], capture_output=True, text=True, check=True, timeout=20
    )
    expected = shell.stdout.split("\0")[:-1]
    (command,) = [command for command in read(text).commands if command.words[0].text == "print"]
    found = [word.text for word in command.words[1:]]
    assert (found or [""]) == expected  # printf without an argument prints one empty word


NUMBERS = st.one_of(st.integers(0, 99).map(str), st.integers(0, 64).map("0{:o}".format), st.integers(0, 64).map("0x{:x}".format))
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("{}{}{}".format, inner, st.sampled_from("+ - * / % < > <= >= == != ** **".split()), inner),
        st.builds("({})".format, inner),
        st.builds("{} {}".format, st.sampled_from("+-!"), inner),
    ),
    max_leaves=6,
)


@pytest.mark.skipif(BASH is None, reason="there is no Bash to compare with")
@given(expression=EXPRESSIONS)
@settings(max_examples=200, deadline=None)
def test_numbers_are_those_that_bash_itself_works_out(expression: str) -> None:
    assert BASH is not None
    shell = subprocess.run(
        [BASH, "-c", f'printf %s "$(({expression}))"'], capture_output=True, text=True, check=False, timeout=20
    )
    try:
        found = words(f"run $(({expression}))")
    except ShellError as refused:
        message = str(refused)
    else:
        assert found == [["run", shell.stdout]]
        return
    assert shell.returncode != 0 or "64" in message  # bits, which Bash wraps at, or the largest exponent
