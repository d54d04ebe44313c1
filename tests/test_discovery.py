"""Discovery: words of any script, rankings on labelled queries, and the tools that search."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import sys
import time
from math import log2
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxalgebra import (
    Head,
    InvalidArgument,
    Message,
    Note,
    Session,
    Tool,
    ToolCall,
    assistant,
    record,
    user,
)
from ctxalgebra.compat.memory_capabilities import Capabilities
from ctxalgebra.compat.memory_capabilities import find as original_find
from ctxalgebra.compat.skills_ranking import rank_skills
from ctxalgebra.compat.toolpolicy_search import find_tools
from ctxalgebra.conformance import door
from ctxalgebra.resident import (
    FIND_CAPABILITY,
    LAZY,
    RANKINGS,
    Capability,
    Index,
    ToolPolicy,
    activated_tools,
    capabilities,
    rank,
    resident_tools,
    respond_discovery,
    snapshot,
)
from ctxalgebra.resident.index import indexed
from ctxalgebra.resident.words import STOP, fold_word, stem, words_of
from ctxalgebra.skills.records import Skill

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    json.loads(line) for line in (ROOT / "tests" / "capabilities.jsonl").read_bytes().splitlines()
]
ITEMS = tuple(Capability(**row) for row in ROWS if "name" in row)
LABELLED = [(row["query"], row["right"]) for row in ROWS if "query" in row]
INDEX = Index(ITEMS)


def load_benchmark():
    spec = importlib.util.spec_from_file_location("disc", ROOT / "benchmarks" / "discovery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def names(query, index=INDEX, **options):
    return [found.capability.name for found in rank(index, query, **options)]


def index_of(*pairs):
    return Index(tuple(Capability(*pair) for pair in pairs))


# Words


@pytest.mark.parametrize(
    ("words", "same"),
    [("test tests testing tested", "test"), ("run runs running runner", "run"),
     ("query queries querying", "query"), ("create creates created creating creation", "creat"),
     ("search searches searching searcher", "search"), ("box boxes boxing", "box"),
     ("delete deletes deleting deletion", "delet"), ("commit commits committed", "commit"),
     ("analysis analyse analysing analyze", "analyz"), ("class classes", "class"),
     ("bus", "bus"), ("status", "status"), ("red", "red"), ("sing", "sing"), ("version", "version"),
     ("v2s", "v2s"), ("user users", "user")],
)  # fmt: skip
def test_endings_are_taken_off(words, same):
    assert {stem(word) for word in words.split()} == {same}


def test_words_of_any_script():
    assert [w for w, _ in words_of("HTTPServer getURLs S3 snake_case")] == [
        "httpserver", "geturls", "s3", "snake", "case"
    ]  # fmt: skip
    assert words_of("HTTPServer")[0][1] == ("http", "server")
    assert words_of("getURLs")[0][1] == ("get", "urls")
    assert words_of("OAuth2Login")[0][1] == ("o", "auth2", "login")
    assert words_of("\u691c")[0][1] == ("\u691c",)
    assert words_of("\u691c\u7d22abc") == [
        ("\u691c\u7d22abc", ("\u691c\u7d22", "abc")),
    ]
    assert fold_word("\u00c4RGER") == fold_word("a\u0308rger") == "arger"
    assert fold_word("\ufb01le") == "file"
    assert words_of("\u05e9\u05dc\u05d5\u05dd 12\u00bd") == [
        ("\u05e9\u05dc\u05d5\u05dd", ("\u05e9\u05dc\u05d5\u05dd",)),
        ("121\u20442", ("121\u20442",)),
    ]


@given(st.text())
def test_words_are_folded_and_bounded(text):
    for whole, parts in words_of(text):
        assert len(whole) <= 64
        assert parts
        assert all(0 < len(part) <= 64 for part in parts)
        assert fold_word(whole) == whole


# Our ranking


def share(ranking, most):
    found = [right in names(query, ranking=ranking, most=most) for query, right in LABELLED]
    return sum(found) / len(found)


def test_the_right_one_is_found():
    assert len(ITEMS) >= 150
    assert len(LABELLED) >= 60
    assert share("default", 1) >= 0.85
    assert share("default", 3) >= 0.95
    for name in RANKINGS:
        assert share(name, 3) <= share("default", 3)


def test_no_word_is_found_inside_another():
    index = index_of(("internet", "Magnetic"), ("net_scan", "Scan ports"))
    assert names("net", index) == ["net_scan"]
    assert names("net", index, ranking="toolpolicy") == ["internet", "net_scan"]
    assert names("magn", index) == ["internet"]


def test_length_counts_for_nothing():
    index = index_of(("b", "word " * 200), ("a", "word"))
    assert names("word", index) == ["b", "a"]
    one, other = rank(index, "word")
    assert one.score == other.score
    assert names("word", index, ranking="find_capability") == ["b", "a"]
    assert names("word", index_of(("a", "word"), ("b", "word " * 200))) == ["a", "b"]


def test_ties_stand_in_the_order_of_the_index():
    index = index_of(*((name, "same thing") for name in "cab"))
    assert names("same", index) == ["c", "a", "b"]
    assert names("things", index, most=2) == ["c", "a"]


def test_stop_words_say_nothing_unless_there_is_nothing_else():
    index = index_of(("a_file", "for the use"), ("web", "search"))
    assert names("the search for a tool", index) == ["web"]
    assert names("for the", index) == ["a_file"]
    assert names("", index) == names("?!", index) == []
    assert names("web", index_of(("?!", "web"), ("", "zip"))) == ["?!"]


def test_identifiers_are_their_words():
    index = index_of(("readFile", ""), ("web_search", ""), ("GitHubIssues", ""))
    assert names("read file", index) == ["readFile"]
    assert names("websearch", index) == ["web_search"]
    assert names("github", index) == names("GitHub", index) == ["GitHubIssues"]
    assert names("readfile", index) == ["readFile"]
    assert names("WebSearch", index) == ["web_search"]


def test_what_is_called_just_so_comes_first():
    index = index_of(("read_file_lines", "Read file lines"), ("read_file", "Read a file"))
    assert names("read file", index) == ["read_file", "read_file_lines"]


def test_keywords_and_kinds():
    index = Index((Capability("a", "b", "skill", ("photo album",)), Capability("c", "photo")))
    assert names("photos", index) == ["a", "c"]
    assert names("photoalbum", index) == ["a"]
    assert names("photos", index, kind="tool") == ["c"]
    assert names("photos", index, left_out={"a"}) == ["c"]


def test_what_was_found_says_by_which_words():
    (first, *_) = rank(INDEX, "running the tests in a \u65e5\u672c zoo")
    assert first.capability.name == "run_tests"
    assert first.words == ("running", "tests")
    (found,) = rank(index_of(("a", "configuration")), "config nothing")
    assert found.words == ("config",)


def test_common_words_only_weigh_among_what_others_found():
    index = index_of(*((f"n{at}", "common") for at in range(20)), ("rare", "special common"))
    assert names("special common", index) == ["rare"]
    assert len(names("common", index, most=50)) == 21


# The plain rule, one capability at a time


def weighed(item, word):
    """Weigh a word in a capability: where it stands, and how."""
    best = 0
    joined = [(5, item.name), *((4, text) for text in item.keywords)]
    stems = {}
    for weight, text in [*joined, (3, item.description)]:
        spelled = [part for whole, parts in words_of(text) for part in (whole, *parts)]
        if weight > 3 and len(words_of(text)) > 1:
            spelled.append("".join(whole for whole, _ in words_of(text)))
        for each in spelled:
            known = stems.setdefault(stem(each), [weight, set()])
            known[1].add(each)
    for key, (weight, spelled) in stems.items():
        if key == stem(word):
            best = max(best, weight * (20 if word in spelled else 19))
        elif len(word) >= 4 and key.startswith(word):
            best = max(best, weight * 10)
    return best


def rarity(weights):
    having = sum(map(bool, weights))
    return max(1, round(100 * log2(1 + (len(weights) - having + 0.5) / (having + 0.5))))


def by_the_rule(items, query, passing):
    """Rank all capabilities as the documentation says, without an index."""
    runs = list(dict.fromkeys(words_of(query)))
    runs = ([run for run in runs if run[0] not in STOP] or runs)[:32]
    found = []
    for whole, parts in runs:
        lanes = [[weighed(item, word) for item in items] for word in (whole, *parts)]
        rare = [rarity(lane) for lane in lanes]
        if parts == (whole,):
            most, lane = rare[0], lanes[0]
        else:
            most = max(rare)
            lane = [
                max(1, sum(w * r for w, r in zip(row[1:], rare[1:], strict=True))
                    // (len(parts) * most), row[0] * rare[0] // most) if any(row) else 0
                for row in zip(*lanes, strict=True)
            ]  # fmt: skip
        lane = [weight * passes for weight, passes in zip(lane, passing, strict=True)]
        if any(lane):
            found.append((sum(map(bool, lane)), most, lane))
    found.sort(key=lambda one: one[0])
    rarer = [one for one in found if one[0] <= len(items) // 4] or found[:1]
    full = 60 * sum(rare for _, rare, _ in found)
    asked = {stem(word) for whole, parts in runs for word in (whole, *parts)}
    scored = []
    for at, item in enumerate(items):
        if any(lane[at] for _, _, lane in rarer):
            score = sum(lane[at] * rare for _, rare, lane in found)
            share = sum(min(lane[at], 60) * rare for _, rare, lane in found)
            own = {stem(part) for _, parts in words_of(item.name) for part in parts}
            whole = full * len(own) // len(runs) if own and own <= asked else 0
            scored.append((at, (score + whole) * share // full))
    return sorted(scored, key=lambda one: -one[1])


SAID = ["get", "list", "issues", "issue", "branch", "files", "file", "serv", "service", "services"]
SAID += [
    "options",
    "option",
    "readFile",
    "config",
    "configure",
    "17",
    "\u691c\u7d22",
    "zebra",
    "the",
]
MADE = [
    Capability(
        f"{verb}_{what}_{at}" if at % 3 else f"{verb}{what.capitalize()}",
        f"{verb.capitalize()}s the {what} of service {at} with options and filters \u691c\u7d22"
        + " zebra configured" * (at % 7 == 0),
        "skill" if at % 5 == 0 else "tool",
        ("optional", "webServices") if at % 4 == 0 else (),
    )
    for at in range(12)
    for verb in ("get", "list", "create")
    for what in ("issue", "branch", "file", "page")
]  # fmt: skip
MADE_INDEX = Index(tuple(MADE))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(SAID), min_size=1, max_size=6), st.booleans(), st.integers(0, 3))
def test_the_index_finds_what_the_rule_says(words, tools, every):
    query = " ".join(words)
    out = {item.name for item in MADE[:: every + 1]} if every else set()
    passing = [not ((tools and i.kind != "tool") or i.name in out) for i in MADE]
    found = rank(MADE_INDEX, query, kind="tool" if tools else None, left_out=out, most=999)
    told = by_the_rule(MADE, query, passing)
    assert [(f.capability, f.score) for f in found] == [(MADE[at], score) for at, score in told]
    for one in found[:9]:
        has = [w for w, parts in words_of(query) if any(weighed(one.capability, p)
               for p in (w, *parts))]  # fmt: skip
        assert set(one.words) <= set(has)
        assert set(one.words) == {w for w in has if w not in STOP} or set(words) <= STOP


def test_the_index_of_few_things_finds_what_the_rule_says():
    for query, _ in LABELLED[::4]:
        told = by_the_rule(ITEMS, query, [True] * len(ITEMS))
        found = rank(INDEX, query, most=999)
        assert [(f.capability, f.score) for f in found] == [(ITEMS[at], s) for at, s in told]


def test_words_that_all_have_cost_no_step_for_each_of_them():
    """Postings of what many have are not walked: a lane stands for them."""
    many = tuple(Capability(f"get_issue_{at}", "Options and filters") for at in range(2_000))
    index = Index(many)
    terms = index.terms
    assert {"get", "issu", "opt", "filt"} <= set(terms.stems.dense)
    terms.stems.listed.update(opt=(), filt=())
    assert len(rank(index, "options filters", most=9_999)) == 2_000
    assert len(rank(index, "opti filt getissue", most=9_999)) == 2_000
    # One lane stands for all beginnings that the same ones have, however long.
    assert 3 <= len(terms.begun) <= 400
    assert (*map(terms.ordered.index, ("getissue0", "getissue999")),) in {
        (first, last - 1) for first, last in terms.begun
    }
    assert sum(len(places) for places in terms.called.values()) == 2_000
    assert max(map(len, terms.called.values())) == 1


@pytest.mark.parametrize("ranking", sorted(RANKINGS))
def test_of_a_long_query_its_beginning_counts(ranking):
    short = "search the web " * 70
    assert names(short[:1_000], ranking=ranking) == names(
        short[:1_000] + "zip " * 9, ranking=ranking
    )
    read = []
    rank(INDEX, "x" * 1_000_000, ranking=lambda index, query, passes: read.append(len(query)) or ())
    assert read == [1_000]


def test_an_index_is_made_once_for_the_same_tools():
    assert indexed(TOOLS, SKILLS) is indexed(TOOLS, SKILLS)
    assert indexed(TOOLS).items == capabilities(TOOLS)
    assert indexed(TOOLS, SKILLS).items == (*capabilities(TOOLS), *SKILLS)


def test_an_index_is_a_value():
    assert Index(ITEMS) == INDEX
    assert hash(Index(ITEMS)) == hash(INDEX)
    assert rank(pickle.loads(pickle.dumps(INDEX)), "tests") == rank(INDEX, "tests")
    assert rank(copy.deepcopy(INDEX), "tests") == rank(INDEX, "tests")


@given(st.text(max_size=30), st.sampled_from(sorted(RANKINGS)))
def test_any_query_has_an_answer(query, ranking):
    if any("\ud800" <= c <= "\udfff" for c in query):
        with pytest.raises(InvalidArgument):
            rank(INDEX, query, ranking=ranking)
        return
    found = rank(INDEX, query, ranking=ranking, most=5)
    assert len(found) <= 5
    assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)
    assert found == rank(INDEX, query, ranking=ranking, most=5)


@pytest.mark.parametrize(
    "wrong",
    [lambda: rank(5, "a"), lambda: rank(INDEX, 5), lambda: rank(INDEX, "a", most=0),
     lambda: rank(INDEX, "a", ranking="best"),
     lambda: rank(INDEX, "a", left_out=None), lambda: rank(INDEX, "a", left_out="read"),
     lambda: rank(INDEX, "a", left_out=[[]]), lambda: rank(INDEX, "a", kind=5),
     lambda: Index([]), lambda: Index(("a",)),
     lambda: Capability("a", keywords=["a"]), lambda: Capability(5)],
)  # fmt: skip
def test_what_can_not_be_searched_is_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()


# The rankings of the originals are the originals'


@given(st.sampled_from([query for query, _ in LABELLED]) | st.text("abe earch_-", max_size=12))
def test_rankings_of_the_originals_agree_with_them(query):
    tools = [{"name": i.name, "description": i.description} for i in ITEMS]
    assert names(query, ranking="toolpolicy", most=999) == find_tools(tools, query)
    only = tuple(t for t, item in zip(tools, ITEMS, strict=True) if item.kind == "tool")
    _, matches, _ = original_find(Capabilities(only, lazy=False), query, kind="tool", top=8)
    ours = names(query, ranking="find_capability", kind="tool", most=8)
    assert ours == [match.name for match in matches]
    skills = [Skill(i.name, i.description) for i in ITEMS]
    told = [skill.name for skill in rank_skills(skills, query, 8)]
    assert names(query, ranking="skills", most=8) == told


def test_sizes_of_schemas_count_for_the_original():
    index = Index((Capability("aa", "zip"), Capability("bb", "zip", schema='{"type":"object"}')))
    assert names("zip", index, ranking="toolpolicy") == ["bb", "aa"]
    assert names("zip", index) == ["aa", "bb"]


def test_a_ranking_may_be_anyones():
    assert names("x", ranking=lambda index, query, passes: [(1, 5.0)]) == ["write"]


# The tools that search

TOOLS = (
    LAZY,
    FIND_CAPABILITY,
    Tool("read", "Read a file"),
    Tool("web", "Search the web.\nUse short queries."),
    Tool("zip", "Pack files " + "x" * 300),
    Tool("secret", "Search secrets"),
    Tool("host", "Search the host"),
)
POLICY = ToolPolicy(core=("read",), disabled=("secret",), externally_managed=("host",))
SKILLS = (Capability("deploy", "Search for servers and deploy", "skill"),)


def asked(arguments, name="lazy", session=None, **options):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = ToolCall("c1", name, text)
    if session is None:
        session = record(Session(), Head(tools=(TOOLS[0], TOOLS[2])), user("go"))
    session = record(session, assistant(call))
    entries = respond_discovery(
        session, call, **{"policy": POLICY, "registered": TOOLS, "skills": SKILLS, **options}
    )
    after = record(session, *entries)
    assert type(entries[-1]) is Message
    assert [type(entry) for entry in entries[:-1]] in ([], [Note])
    return entries[-1].parts[0].text, entries[-1].error, after


def test_lazy_searches_what_may_be_activated():
    text, error, after = asked({"search": "searching"})
    assert text == "- [tool] web: Search the web. Use short queries."
    assert not error
    assert activated_tools(after) == ()
    assert asked({"search": "quantum"})[0] == "No tool matches. Try other words."
    assert asked({"search": "read"})[0] == "- [tool, active] read: Read a file"
    assert asked({"search": "pack"})[0].endswith("xxx...")


def test_lazy_activates_and_tells_what_the_tool_is_for():
    text, _, after = asked(
        {"activate": ["web", " zip ", "web", "", "read", "secret", "wbe", "wub"]}
    )
    lines = text.split("\n")
    assert lines[0] == "Activated: web, zip."
    assert "- web: Search the web." in lines
    assert "Active already: read." in lines
    assert "Not allowed: secret." in lines
    assert "There is no tool wbe." in lines
    assert activated_tools(after) == ("web", "zip")
    settled = resident_tools(after, policy=POLICY, registered=TOOLS)
    assert [tool.name for tool in settled.head.tools][-2:] == ["web", "zip"]
    assert asked({"activate": ["  "]})[0] == "Nothing to activate."
    assert "Near it: web." in asked({"activate": ["web_searching"]})[0]


def test_lazy_tells_the_state_and_gives_back():
    session = record(Session(), Head(tools=(LAZY,)), user("go"), snapshot(["web"]))
    text, _, _ = asked({}, session=session)
    assert text == ("Active: lazy, web.\nActivated: web.\n2 more can be found and activated.")
    _, _, after = asked({"reset": True, "activate": ["zip"]}, session=session)
    assert activated_tools(after) == ()
    assert asked({"activate": [], "search": None})[0].startswith("Active: lazy, read.")


def test_the_finder_loads_the_best_match():
    text, _, after = asked({"description": "pack"}, "find_capability")
    assert activated_tools(after) == ("zip",)
    assert "Activated: zip." in text
    _, _, after = asked({"description": "pack", "load": False}, "find_capability")
    assert activated_tools(after) == ()
    text, _, _ = asked({"description": "quantum"}, "find_capability")
    assert text == "Nothing matches. Try other words."
    text, _, _ = asked({"description": "search", "kind": "skill", "top": 99}, "find_capability")
    assert text == "- [skill] deploy: Search for servers and deploy"
    bodies = {"deploy": "1. Look.\n2. Deploy."}
    text, _, _ = asked({"description": "deploy"}, "find_capability", bodies=bodies)
    assert text.endswith("deploy\n\n1. Look.\n2. Deploy.")
    text, _, _ = asked({"description": "search", "top": 1}, "find_capability", index=Index(SKILLS))
    assert text.count("- [") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [("", "no JSON"), ("[1]", "no object"), ('{"search":5}', "wrong-type"),
     ('{"other":1}', "no such argument"), ('{"activate":[5]}', "wrong-type"),
     ("[" * 100_000, "no JSON"), ('{"search":NaN}', "no JSON"), ('{"reset":1}', "wrong-type"),
     ('{"search":"\\ud800"}', "lone-surrogate")],
)  # fmt: skip
def test_what_is_wrong_with_a_call_is_its_result(arguments, told):
    text, error, after = asked(arguments)
    assert error
    assert told in text
    assert activated_tools(after) == ()


def test_what_is_wrong_with_a_call_of_the_finder():
    assert "is missing" in asked({}, "find_capability")[0]
    assert "one of any" in asked({"description": "a", "kind": "x"}, "find_capability")[0]
    assert asked({"description": "a", "top": -5}, "find_capability")[1] is False


def test_where_the_policy_is_off_nothing_is_switched():
    text, error, after = asked({"activate": ["web"]}, policy=ToolPolicy(enabled=False))
    assert (text, error) == ("Tools are not switched here.", False)
    assert activated_tools(after) == ()


def test_calls_of_others_are_refused():
    session = record(Session(), user("go"))
    given = {"policy": POLICY, "registered": TOOLS}
    with pytest.raises(InvalidArgument, match="finds nothing"):
        respond_discovery(session, ToolCall("c", "read"), **given)
    with pytest.raises(InvalidArgument, match="ranking"):
        respond_discovery(session, ToolCall("c", "lazy"), **given, ranking="best")
    for wrong in ({"registered": [1]}, {"skills": (1,)}, {"policy": 5}):
        with pytest.raises(InvalidArgument, match="wrong-type"):
            respond_discovery(session, ToolCall("c", "lazy", "{}"), **{**given, **wrong})


def test_names_of_tools_reach_no_terminal():
    evil = Tool("bad\x1b[31m", "Red \x1b[0m text")
    text, _, _ = asked({"search": "red"}, registered=(*TOOLS, evil))
    assert "\x1b" not in text


def test_schemas_are_json_and_stay_as_they_are():
    for tool in (LAZY, FIND_CAPABILITY):
        shape = json.loads(tool.schema)
        assert shape["additionalProperties"] is False
        assert set(shape["required"]) <= set(shape["properties"])
    assert capabilities([LAZY])[0] == Capability("lazy", LAZY.description, schema=LAZY.schema)


# Growth


def took(rule, value):
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        rule(value)
        best = min(best, time.process_time() - start)
    return best


GROWING = {
    "one word": lambda n: words_of("a" * n),
    "many words": lambda n: words_of("aB_" * (n // 3)),
    "packed": lambda n: words_of("\u691c" * n),
    "marks": lambda n: words_of("a\u0301" * (n // 2)),
    "description": lambda n: Index((Capability("a", "ab c" * (n // 4)),)),
    "query": lambda n: rank(INDEX, "test " * (n // 5)),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_million_characters_cost_no_more_than_their_share(name):
    # Sixteen times the length: a quadratic rule would take 256 times as long.
    rule = GROWING[name]
    assert took(rule, 1_000_000) <= 100 * max(took(rule, 1_000_000 // 16), 0.001)


def test_a_search_reads_what_its_rarer_words_have():
    """Counted in capabilities that are weighed, not in time."""

    class Counting(dict):
        seen = 0

        def get(self, key, default=None):
            Counting.seen += len(super().get(key, ()))
            return super().get(key, default)

        def __getitem__(self, key):
            Counting.seen += len(super().__getitem__(key))
            return super().__getitem__(key)

    for many in (100, 5_000):
        index = index_of(*((f"name{at}", f"word{at} shared") for at in range(many)))
        terms = index.terms
        stems = terms.stems._replace(listed=Counting(terms.stems.listed))
        object.__setattr__(index, "terms", terms._replace(stems=stems))
        Counting.seen = 0
        assert names("word7x name7", index, most=1) == ["name7"]
        assert Counting.seen <= 120
        Counting.seen = 0
        assert names("shared name word", index, most=1) == ["name0"]
        assert Counting.seen <= 1_000


def test_the_benchmark_tells_its_figures():
    benchmark = load_benchmark()
    told = benchmark.figures(capabilities=60, tools=20, rounds=1)
    assert told["rankings"]["default"]["first"] == round(share("default", 1), 3)
    assert set(told["rankings"]) == set(RANKINGS)
    assert told["search_ms"] > 0
    assert told["hard_ms"] > 0
    assert told["slowest"] in {*benchmark.HARD, *(query for query, _ in LABELLED)}
    assert told["reconcile_ms"] > 0


# At the door


@pytest.mark.parametrize(
    "given",
    [{"capabilities": [{}]}, {"capabilities": [{"name": "a", "keywords": "b"}]},
     {"capabilities": [{"name": "a", "schema": "{}"}]}, {"capabilities": 5}, {"query": 5}],
)  # fmt: skip
def test_what_the_door_can_not_rank(given):
    told = door.result("kernel.rank", {"capabilities": [], "query": "a", **given})
    assert told["error"]["code"] == "invalid-input"


def test_the_door_passes_on_what_the_library_refuses():
    told = door.result("kernel.rank", {"capabilities": [{"name": 5}], "query": "a"})
    assert told["error"] == {
        "code": "wrong-type", "reason": "expected a text, got int", "field": "name"
    }  # fmt: skip


def test_what_is_left_out_hides_nothing_that_is_not():
    """Common words count in full where the rare ones find only what is left out."""
    items = [Capability(f"deploy{n}", "deploy the unit") for n in range(3)]
    items += [Capability(f"t{n}", "test of something") for n in range(9)]
    items += [Capability("other", "nothing of it", kind="skill")]
    items = tuple(items)
    found = rank(Index(items), "deploy a test", left_out=[f"deploy{n}" for n in range(3)])
    assert [one.capability.name for one in found] == [f"t{n}" for n in range(8)]
    assert rank(Index(items), "deploy nothing", kind="skill")[0].capability.name == "other"
    for ranking in RANKINGS:
        hidden = {item.name for item in items[:3]}
        names = [f.capability.name for f in rank(Index(items), "test", ranking=ranking)]
        assert names
        assert not hidden & {*names}


@pytest.mark.parametrize("schema", ["", "{", "NaN", "[" * 100_000, '"\\ud800"'])
def test_a_schema_that_is_no_json_weighs_nothing(schema):
    index = Index((Capability("web", "Search", schema=schema), Capability("zip", "Search")))
    for ranking in RANKINGS:
        assert {f.capability.name for f in rank(index, "search", ranking=ranking)} == {"web", "zip"}
