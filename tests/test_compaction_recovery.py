"""The store of originals, against a dictionary and a list; pages; sharing; hostile texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from ctxalgebra.compaction import recovery
from ctxalgebra.compaction.intmap import Fork, first, get, items, put, without
from ctxalgebra.compaction.limits import LARGEST
from ctxalgebra.compaction.recovery import Recovery, excerpt, keep, names, original, page, touch
from ctxalgebra.compaction.signals import split_lines_preserve_endings, units

# The map

KEYS = st.integers(0, 40) | st.integers(0, 2**256)


@given(st.lists(st.tuples(st.booleans(), KEYS)))
def test_the_map_is_a_dictionary(steps):
    tree, model = None, {}
    before = []
    for setting, key in steps:
        before.append((tree, dict(model)))
        if setting:
            tree, model = put(tree, key, len(before)), {**model, key: len(before)}
        else:
            tree = without(tree, key)
            model.pop(key, None)
        assert get(tree, key) == model.get(key)
    for old, held in [*before, (tree, model)]:
        assert list(items(old)) == sorted(held.items())
        assert first(old) == (min(held.items()) if held else None)


def nodes(tree):
    todo, found = [tree] if tree else [], {}
    while todo:
        node = todo.pop()
        found[id(node)] = node
        if isinstance(node, Fork):
            todo += [node.low, node.high]
    return found


def test_what_is_not_changed_is_shared():
    tree = None
    for key in range(1024):
        tree = put(tree, key, key)
    held = nodes(tree)
    for changed in (put(tree, 5000, 0), put(tree, 17, 0), without(tree, 17)):
        assert len(nodes(changed).keys() - held.keys()) <= 13
    assert without(tree, 2000) is tree
    assert without(None, 1) is None


def test_an_operation_of_the_store_makes_a_logarithm_of_nodes():
    store, some = Recovery(texts=4096), []
    for number in range(2000):
        store, name = keep(store, f"text {number}")
        some.append(name)
    held = nodes(store.by_name).keys() | nodes(store.by_use).keys()
    for after in (keep(store, "new")[0], touch(store, some[7])[0], page(store, some[9])[0]):
        made = nodes(after.by_name).keys() | nodes(after.by_use).keys()
        assert len(made - held) < 80


# The store

TEXTS = st.text(st.sampled_from("ab\r\n\ud800\ud801\U0001f600"), max_size=12)
MOST_TEXTS, MOST_CHARACTERS = 4, 24


class Model(RuleBasedStateMachine):
    """A store beside a dictionary of texts and a list of names, the one used last at its end."""

    texts = Bundle("texts")

    @initialize()
    def begin(self):
        self.store = Recovery(texts=MOST_TEXTS, characters=MOST_CHARACTERS)
        self.held, self.order, self.past = {}, [], []

    def used(self, name):
        self.order.remove(name)
        self.order.append(name)

    @rule(target=texts, text=TEXTS)
    def text(self, text):
        return text

    @rule(text=texts)
    def keep(self, text):
        self.past.append((self.store, dict(self.held)))
        self.store, name = keep(self.store, text, "bash")
        if self.held.get(name) == text:
            return self.used(name)
        assert name not in self.held
        self.held[name] = text
        self.order.append(name)
        while len(self.held) > MOST_TEXTS or sum(map(len, self.held.values())) > MOST_CHARACTERS:
            del self.held[self.order.pop(0)]
        return None

    @rule(text=texts, start=st.integers(-2, 14), count=st.integers(-2, 14))
    def page(self, text, start, count):
        name = next((name for name, held in self.held.items() if held == text), "0" * 24)
        self.store, found = page(self.store, f" {name}\n", start, count)
        if name not in self.held:
            assert found is None
            return
        self.used(name)
        lines = split_lines_preserve_endings(text)
        assert (found.id, found.total) == (name, len(lines))
        assert found.start == min(max(start, 1), len(lines))
        assert found.end - found.start + 1 <= max(count, 1)
        shown = "".join(map("".join, lines[found.start - 1 : found.end]))
        assert found.text + found.separator == shown
        assert found.next == (0 if found.end == len(lines) else found.end + 1)

    @rule(text=texts, start=st.integers(-2, 14), count=st.integers(-2, 14))
    def excerpt(self, text, start, count):
        name = next((name for name, held in self.held.items() if held == text), "nothing")
        self.store, found = excerpt(self.store, name, start, count)
        if name not in self.held:
            assert found is None
            return
        self.used(name)
        start = min(max(start, 0), len(text))
        assert found.text == text[start : start + max(count, 1)]
        assert (found.start, found.total) == (start, len(text))

    @invariant()
    def agrees(self):
        for store, held in [*self.past[-3:], (self.store, self.held)]:
            assert {name: original(store, name) for name in names(store)} == held
            assert store.held == len(held)
            assert store.size == sum(map(len, held.values()))
        assert list(names(self.store)) == self.order


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30)


def test_the_bounds_are_those_of_the_specification():
    store = Recovery()
    assert (store.texts, store.characters) == (128, 16 * 2**20)
    for number in range(130):
        store, _ = keep(store, f"text {number}")
    assert store.held == 128
    assert original(store, names(store)[0]) == "text 2"
    large, name = keep(store, "x" * LARGEST)
    assert names(large) == (name,)
    assert keep(store, "x" * (LARGEST + 1)) == (store, "")
    assert keep(Recovery(texts=0), "a") == (Recovery(texts=0), "")


def test_sizes_are_what_the_measure_says():
    store, name = keep(Recovery(characters=3, measure=units), "\U0001f600a")
    assert (store.size, len(original(store, name))) == (3, 2)
    assert keep(store, "\U0001f600" * 2) == (store, "")


def test_w10_texts_that_differ_in_lone_surrogates_have_names_of_their_own():
    store, one = keep(Recovery(), "a" * 900 + "\ud800")
    store, other = keep(store, "a" * 900 + "\ud801")
    assert one != other
    assert original(store, one)[-1] == "\ud800"
    assert store.size == 1802


def test_a_name_that_is_taken_grows(monkeypatch):
    monkeypatch.setattr(recovery, "hash_text", lambda _: "a" * 24)
    store, one = keep(Recovery(), "first")
    store, other = keep(store, "second")
    store, again = keep(store, "second")
    assert (len(one), len(other), again, store.held) == (24, 64, other, 2)
    assert (original(store, one), original(store, other)) == ("first", "second")


@given(st.text(st.sampled_from("ab\r\n"), max_size=60), st.integers(1, 5))
def test_w11_pages_put_together_are_the_text(text, count):
    store, name = keep(Recovery(), text)
    parts, at = [], 1
    while at:
        store, found = page(store, name, at, count)
        parts += [found.text, found.separator]
        at = found.next
    assert "".join(parts) == text
    pieces, at = [], 0
    while not pieces or at:
        store, piece = excerpt(store, name, at, count)
        pieces.append(piece.text)
        at = piece.next
    assert "".join(pieces) == text


def test_w11_a_text_of_one_long_line_is_had_in_pieces():
    text = "x" * 286_890
    store, name = keep(Recovery(), text)
    store, whole = page(store, name)
    assert (whole.total, len(whole.text)) == (1, 286_890)
    store, piece = excerpt(store, name, 16_000, 10**9)
    assert (len(piece.text), piece.next) == (100_000, 116_000)
    assert len(excerpt(store, name)[1].text) == 16_000


def test_pages_have_at_most_a_thousand_lines():
    store, name = keep(Recovery(), "a\n" * 5000)
    assert page(store, name, 1, 10**9)[1].end == 1000
    assert page(store, name)[1].end == 240
    assert page(store, name, 10**9)[1].start == 5001


@pytest.mark.parametrize(
    "name", ["", "nope", "0" * 23, "0" * 65, "G" * 24, "-" + "0" * 23, "0x" + "0" * 22]
)
def test_names_that_are_none(name):
    store, _ = keep(Recovery(), "a")
    assert original(store, name) is None
    assert touch(store, name) == (store, None)


def test_a_store_shows_what_it_holds_and_no_text():
    store, name = keep(Recovery(), "secret")
    assert "secret" not in repr(store)
    assert "secret" not in repr(touch(store, name)[1])
