"""Whatever is passed to a public name, what comes out is a value or an error with a code."""

from __future__ import annotations

import copy
import pickle

import pytest
from attrs.exceptions import FrozenInstanceError

from ctxalgebra import Node, Session, assistant, log, record, user


def test_nodes_cannot_be_changed():
    session = record(Session(), user("a"), assistant("b"))
    same = pickle.loads(pickle.dumps(session))
    for node in log(session):
        assert type(node) is Node
        for name in Node.__slots__:
            with pytest.raises(FrozenInstanceError):
                setattr(node, name, user("evil"))
            with pytest.raises(FrozenInstanceError):
                delattr(node, name)
    assert session == same
    assert copy.deepcopy(session) == session
    first = session.leaf.parent
    assert repr(Node(user("c"), first, session.leaf)) == f"<2: {user('c')!r}>"
