"""The one format in which agents report what they did, and the stream form of it."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.adapters._reported import ReportedStream, Unreadable, read_json, read_reported
from watchkeeper.adapters._reported_format import MAX_DEPTH, trajectory_json_schema
from watchkeeper.domain.ports import Step
from watchkeeper.domain.trajectory import Trajectory, Usage

CALLS: list[dict[str, Any]] = [
    {"tool": "look", "arguments": {"p": "a"}, "result": "a.txt", "id": "c7", "latency_ms": 3},
    {"tool": "look", "arguments": {"p": "b"}, "result": [], "is_error": False},
    {"tool": "look", "result": "no such file", "is_error": True},
    {"tool": "note", "result": "", "is_silent": True},
    {"tool": "look"},
    {"tool": "count", "result": {"n": 3}},
]
WHOLE: dict[str, Any] = {
    "answer": "it is a.txt",
    "rounds": [
        {
            "text": "let me look",
            "tool_calls": CALLS,
            "usage": {"input_tokens": 20, "output_tokens": 5, "cache_read_tokens": None},
            "served_model": "m-1",
            "stop_reason": "tool_use",
            "latency_ms": 812.5,
            "first_token_ms": 210,
        },
        {"text": "found", "agent": "searcher"},
        {"text": "it is a.txt"},
    ],
    "action": "answer",
    "state": {"found": ["a.txt"]},
    "served_model": "m-0",
    "cost_usd": 0.0031,
    "end": "answered",
    "error": None,
}


def streamed(*events: Any, at_ms: float | None = None) -> Step:
    """The turn that some events report."""
    stream = ReportedStream()
    for event in events:
        stream.add(event, at_ms)
    return stream.step()


def test_a_whole_report_becomes_rounds_with_their_calls() -> None:
    """Each status by its result; what is not said of a round is said of the turn, or unknown."""
    step = read_reported(WHOLE)
    first, inner, last = step.rounds
    assert [call.status for call in first.tool_calls] == [
        "ok",
        "empty",
        "missing_path",
        "empty",
        "unanswered",
        "ok",
    ]
    assert [call.call_id for call in first.tool_calls[:2]] == ["c7", "call_1"]
    assert first.tool_calls[5].result == '{"n": 3}'
    assert first.usage == Usage(input_tokens=20, output_tokens=5)
    assert (first.latency_ms, first.first_token_ms, first.stop_reason) == (812.5, 210, "tool_use")
    assert [one.served_model for one in step.rounds] == ["m-1", "m-0", "m-0"]
    assert (inner.agent, last.agent) == ("searcher", None)
    assert (step.answer, step.action, step.state, step.end, step.cost_usd) == (
        "it is a.txt",
        "answer",
        {"found": ["a.txt"]},
        "answered",
        0.0031,
    )
    assert not first.is_barren


@pytest.mark.parametrize("report", ["it is a.txt", {"answer": "it is a.txt"}])
def test_an_answer_alone_is_one_round_of_which_nothing_is_known(report: object) -> None:
    """How many responses it took is unknown; tokens nobody told of are not 0."""
    step = read_reported(report)
    (one,) = step.rounds
    assert (one.text, step.answer, step.end) == ("it is a.txt", "it is a.txt", "answered")
    assert one.usage == Usage()
    assert Trajectory(step.rounds).usage.total_tokens is None


def test_silence_is_a_round_and_a_crash_without_a_word_is_none() -> None:
    """An agent that answers nothing has responded; one that only failed may not have."""
    assert [one.text for one in read_reported({}).rounds] == [""]
    step = read_reported({"error": "boom"})
    assert (step.rounds, step.end, step.error) == ((), "agent_error", "boom")


def test_without_an_answer_the_agent_s_own_last_text_is_it() -> None:
    """A sub-agent's words are not; an empty answer stays empty."""
    rounds = [{"text": "mine"}, {"text": "theirs", "agent": "sub"}]
    assert read_reported({"rounds": rounds}).answer == "mine"
    assert read_reported({"rounds": rounds, "answer": ""}).answer == ""


def test_an_answer_may_be_json() -> None:
    """It is kept as its text, so that graders of fields can read it."""
    assert read_reported({"answer": {"ort": "Köln"}}).answer == '{"ort": "Köln"}'
    assert read_reported({"answer": 0}).answer == "0"


def test_the_turn_s_tokens_are_booked_on_its_last_round() -> None:
    """The sum is right and each class is counted once; what rounds say themselves has priority."""
    total = {"input_tokens": 90, "output_tokens": 9}
    step = read_reported({"rounds": [{"text": "a"}, {"text": "b"}], "usage": total})
    assert Trajectory(step.rounds).usage == Usage(input_tokens=90, output_tokens=9)
    assert read_reported({"answer": "a", "usage": total}).rounds[0].usage.input_tokens == 90
    own = [{"usage": {"input_tokens": 1}}, {}]
    step = read_reported({"rounds": own, "usage": total})
    assert [one.usage.input_tokens for one in step.rounds] == [1, None]


def test_arguments_may_be_the_text_that_the_model_wrote() -> None:
    """Also where that is no JSON object; nothing is lost and nothing is refused."""
    calls = [{"tool": "t", "arguments": text} for text in ('{"a": 1}', "{a: 1", "[1]", "")]
    (one,) = read_reported({"rounds": [{"tool_calls": calls}]}).rounds
    assert [call.arguments for call in one.tool_calls] == [
        {"a": 1},
        {"text": "{a: 1"},
        {"text": "[1]"},
        {"text": ""},
    ]


def test_an_error_makes_the_end_unless_the_end_is_told() -> None:
    """A refusal may have its reason in ``error``."""
    assert read_reported({"answer": "x", "error": "e"}).end == "agent_error"
    assert read_reported({"answer": "x", "error": "e", "end": "refused"}).end == "refused"


def nested(depth: int) -> object:
    """A list in a list in a list."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (None, "expected a text or a mapping, found NoneType"),
        ([WHOLE], "found list"),
        ({"answr": "x"}, "answr: unknown key"),
        ({"rounds": [{}, {"tool_calls": [{"tool": ""}]}]}, "rounds.1.tool_calls.0.tool"),
        ({"rounds": [{"usage": {"input_tokens": -1}}]}, "rounds.0.usage.input_tokens"),
        ({"rounds": [{"usage": {"input_tokens": "3"}}]}, "rounds.0.usage.input_tokens"),
        ({"rounds": [{"latency_ms": -1}]}, "rounds.0.latency_ms"),
        ({"rounds": [{}] * 10_001}, "rounds: List should have at most 10000"),
        ({"rounds": [{"tool_calls": [{"tool": "t"}] * 1_001}]}, "rounds.0.tool_calls"),
        ({"answer": "x" * 10_000_001}, "a text of more than 10,000,000"),
        ({"cost_usd": float("nan")}, "nan is not a JSON number"),
        ({"state": {"x": float("inf")}}, "inf is not a JSON number"),
        ({"state": {"x": 10**301}}, "too many digits"),
        ({"state": {1: "x"}}, "a key of type int"),
        ({"state": {"x": object()}}, "state.x"),
        ({"state": {"x": nested(MAX_DEPTH + 1)}}, f"nested deeper than {MAX_DEPTH}"),
        ({"state": {"x": [[]] * 500_000}}, "more than 500,000 values"),
        ({"end": "done"}, "end"),
        ({"action": ""}, "action"),
        ({"x\ny" * 500: 1}, "unknown key"),
    ],
)
def test_what_is_wrong_is_unreadable_and_says_where(report: object, why: str) -> None:
    """Nothing is guessed and nothing is half read."""
    with pytest.raises(Unreadable) as caught:
        read_reported(report)
    assert why in str(caught.value)
    assert len(str(caught.value)) <= 250
    assert "\n" not in str(caught.value)


def test_halves_of_characters_are_replaced() -> None:
    """A text that was cut in the middle of one can be stored all the same."""
    step = read_reported({"answer": "a\ud83d", "state": {"k\ud83d": ["\ude00"]}})
    assert step.answer == "a�"
    assert step.state == {"k�": ["�"]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b"NaN", "NaN is not"),
        (b"[" * 100_000, "nested deeper"),
        (b"9" * 5_000, "too many digits"),
    ],
)
def test_json_is_read_within_bounds(text: bytes, why: str) -> None:
    """Whatever the text is, the only error is that it is unreadable."""
    with pytest.raises(Unreadable, match=why):
        read_json(text)


def test_a_stream_makes_the_same_turn_as_the_whole_report() -> None:
    """Rounds one by one, then the result without them."""
    rounds = [{"type": "round", **one} for one in WHOLE["rounds"]]
    result = {"type": "result", **{key: one for key, one in WHOLE.items() if key != "rounds"}}
    assert streamed(*rounds, {"type": "note", "any": [1]}, result) == read_reported(WHOLE)
    assert streamed({"type": "result", **WHOLE}) == read_reported(WHOLE)


def test_pieces_of_text_make_the_round_and_the_answer() -> None:
    """Of a round that has no text of its own, and of a result without an answer."""
    step = streamed(
        {"type": "text", "text": "let me "},
        {"type": "text", "text": "look"},
        {"type": "round", "tool_calls": [{"tool": "look", "result": "x"}]},
        {"type": "text", "text": "thrown away"},
        {"type": "round", "text": "said"},
        {"type": "text", "text": "bye"},
        {"type": "result"},
    )
    assert [one.text for one in step.rounds] == ["let me look", "said"]
    assert step.answer == "bye"
    step = streamed({"type": "text", "text": "only"}, {"type": "result"})
    assert ([one.text for one in step.rounds], step.answer) == (["only"], "only")


def test_the_first_piece_tells_the_first_token() -> None:
    """Of the first round only; what the agent measured itself has priority."""
    stream = ReportedStream()
    for at_ms, event in (
        (100, {"type": "text", "text": "a"}),
        (150, {"type": "text", "text": "b"}),
        (200, {"type": "round"}),
        (300, {"type": "text", "text": "c"}),
        (400, {"type": "round"}),
        (500, {"type": "result"}),
    ):
        stream.add(event, at_ms)
    assert [one.first_token_ms for one in stream.step().rounds] == [100, None]
    own = {"type": "round", "text": "x", "first_token_ms": 7}
    step = streamed({"type": "text", "text": "a"}, own, {"type": "result"}, at_ms=9)
    assert step.rounds[0].first_token_ms == 7


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "no result after 0 rounds"),
        ([{"type": "round"}], "no result after 1 rounds"),
        ([{"type": "done"}], "'done'"),
        ([{}], "type"),
        (["text"], "expected an event, a mapping; found str"),
        ([{"type": "result"}, {"type": "result"}], "an event after the result"),
        ([{"type": "result"}, {"type": "text", "text": "x"}], "an event after the result"),
        ([{"type": "round"}, {"type": "result", "rounds": [{}]}], "already reported"),
        ([{"type": "round", "txt": "x"}], "round.txt: unknown key"),
        ([{"type": "round"}] * 10_001, "more than 10,000 rounds"),
        ([{"type": "text", "text": "x" * 6_000_000}] * 2, "pieces of more than"),
    ],
)
def test_a_stream_that_is_not_one_is_unreadable(events: list[Any], why: str) -> None:
    """Broken off, of unknown events, or going on after its end."""
    with pytest.raises(Unreadable, match=why):
        streamed(*events)


def test_notes_may_follow_the_result() -> None:
    """A farewell changes nothing."""
    stream = ReportedStream()
    stream.add({"type": "result", "answer": "x"})
    assert stream.is_complete
    stream.add({"type": "note"})
    assert stream.step().answer == "x"


SCHEMA = trajectory_json_schema()
EVENT = {**SCHEMA["$defs"]["Event"], "$defs": SCHEMA["$defs"]}


def test_the_schema_is_one_and_takes_what_is_read() -> None:
    """A report at its root, an event of a stream in ``$defs``."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(WHOLE, SCHEMA)
    jsonschema.validate({}, SCHEMA)
    for event in ({"type": "text", "text": "x"}, {"type": "note", "x": 1}, {"type": "result"}):
        jsonschema.validate(event, EVENT)
    wrong: dict[str, Any]
    for wrong in ({"answr": 1}, {"rounds": [{"tool_calls": [{}]}]}, {"end": "done"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)
    for wrong in ({"type": "wat"}, {"type": "round", "txt": "x"}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, EVENT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*WHOLE, "tool_calls", "usage", "text", "tool", "x"])


@given(st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON, max_size=4), max_size=2)))
def test_whatever_is_reported_is_read_or_unreadable(report: dict[str, Any]) -> None:
    """Nothing else is raised, and what was read can be stored as JSON."""
    try:
        step = read_reported(report)
    except Unreadable:
        return
    assert step.end is not None
    stored = [[call.arguments, call.result] for one in step.rounds for call in one.tool_calls]
    json.dumps([stored, step.state, step.answer], allow_nan=False, ensure_ascii=False).encode()
