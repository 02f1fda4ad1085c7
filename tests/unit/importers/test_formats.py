"""What each format means, where a count could go wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers.samples import (
    SWE_AGENT,
    TAU_BENCH,
    USER,
    answered,
    asks,
    call,
    gave,
    inspect_call,
    log,
    result,
    sample,
    tool_event,
    used,
    write,
    write_lines,
)
from watchkeeper.domain.endpoint import Price, PriceBand, PriceTable
from watchkeeper.domain.imported import ImportedTrial
from watchkeeper.domain.trajectory import Usage
from watchkeeper.importers import importer_module

START = datetime(2026, 1, 1, tzinfo=UTC)


def read(kind: str, path: Path, value: Any) -> ImportedTrial:
    """The one trial of a file."""
    (trial,) = importer_module(kind).read(write(path / "file.json", value))
    return trial


def statuses(trial: ImportedTrial) -> list[list[tuple[str, str]]]:
    """The calls of every round with what they brought."""
    return [[(one.tool, one.status) for one in done.tool_calls] for done in trial.trajectory.rounds]


class TestMessages:
    """Plain messages."""

    def test_parallel_results_in_any_order(self, tmp_path: Path) -> None:
        """One response, one round; each result goes to its own call."""
        both = asks(call("a", "look"), call("b", "read"))
        trial = read("messages", tmp_path, [USER, both, result("b", ""), result("a", "a.txt")])
        assert statuses(trial) == [[("look", "ok"), ("read", "empty")]]
        assert trial.stop_reason == "not_finished"

    def test_an_id_that_comes_again_is_that_of_the_newer_call(self, tmp_path: Path) -> None:
        """Models reuse ids from one response to the next."""
        again = [asks(call("a", "look")), result("a", "[]"), asks(call("a", "read"))]
        trial = read("messages", tmp_path, [USER, *again, result("a", "text")])
        assert statuses(trial) == [[("look", "empty")], [("read", "ok")]]

    def test_a_late_result_goes_back_to_its_call(self, tmp_path: Path) -> None:
        """Also when the model has spoken meanwhile."""
        late = [asks(call("a", "wait")), {"role": "assistant", "content": "…"}]
        trial = read("messages", tmp_path, [USER, *late, result("a", "done")])
        assert statuses(trial) == [[("wait", "ok")], []]

    def test_a_call_without_a_result_is_unanswered(self, tmp_path: Path) -> None:
        """And its round barren."""
        trial = read("messages", tmp_path, [USER, asks(call("a", "look")), USER])
        assert statuses(trial) == [[("look", "unanswered")]]
        assert trial.trajectory.barren_round_count == 1

    def test_one_response_in_several_messages_is_one_round(self, tmp_path: Path) -> None:
        """Where they carry the same id and nothing stands between them."""
        parts = [{**used("t1", "look"), "id": "m1"}, {**used("t2", "read"), "id": "m1"}]
        results = gave(("t1", "a", False), ("t2", "b", False))
        other = {**used("t3", "look"), "id": "m1"}
        trial = read("messages", tmp_path, [USER, *parts, results, other])
        assert statuses(trial) == [[("look", "ok"), ("read", "ok")], [("look", "unanswered")]]

    def test_old_function_calls(self, tmp_path: Path) -> None:
        """Without ids; the result names the function."""
        asked = {"role": "assistant", "content": None, "function_call": {"name": "look"}}
        told = {"role": "function", "name": "look", "content": "a.txt"}
        assert statuses(read("messages", tmp_path, [USER, asked, told])) == [[("look", "ok")]]

    def test_a_picture_is_something(self, tmp_path: Path) -> None:
        """A result without text is not an empty one."""
        picture = [{"type": "image", "source": {}}]
        trial = read("messages", tmp_path, [USER, used("t", "shot"), gave(("t", picture, False))])
        assert statuses(trial) == [[("shot", "ok")]]
        assert trial.trajectory.tool_calls[0].result == "[image]"

    def test_arguments_that_are_no_object_are_kept(self, tmp_path: Path) -> None:
        """What the model wrote is a fact, also when it is no JSON."""
        odd = {"id": "a", "function": {"name": "look", "arguments": "{oops"}}
        trial = read("messages", tmp_path, [USER, asks(odd)])
        assert trial.trajectory.tool_calls[0].arguments == {"arguments": "{oops"}

    @pytest.mark.parametrize(
        ("last", "stop"),
        [
            ({"content": "yes"}, "answered"),
            ({"content": ""}, "silent"),
            ({"content": None, "refusal": "No."}, "refused"),
            ({"content": "ye", "stop_reason": "max_tokens"}, "truncated"),
            ({"content": [], "stop_reason": "refusal"}, "refused"),
        ],
    )
    def test_how_it_ended(self, last: dict[str, Any], stop: str, tmp_path: Path) -> None:
        """By the last response."""
        trial = read("messages", tmp_path, [USER, {"role": "assistant", **last}])
        assert trial.stop_reason == stop
        assert len(trial.trajectory.rounds) == 1

    def test_tokens_of_both_interfaces(self, tmp_path: Path) -> None:
        """OpenAI counts cached tokens into the prompt, Anthropic beside it."""
        openai = {
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
        anthropic = {
            "input_tokens": 40,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_1h_input_tokens": 10},
            "output_tokens": 9,
        }
        said = {"role": "assistant", "content": "yes"}
        talk = [USER, {**said, "usage": openai}, USER, {**said, "usage": anthropic}]
        first, second = read("messages", tmp_path, talk).trajectory.rounds
        assert first.usage == Usage(40, None, None, 60, 9, 4)
        assert second.usage == Usage(40, 20, 10, 60, 9, None)

    def test_trials_of_one_case_are_numbered(self, tmp_path: Path) -> None:
        """In their order, unless the file says which they are."""
        talk = {"messages": [USER, {"role": "assistant", "content": "yes"}]}
        lines = [{"id": "a", **talk}, {"id": "b", **talk}, {"id": "a", **talk}, talk]
        path = write_lines(tmp_path / "talks.jsonl", *lines)
        found = [(one.case_id, one.index) for one in importer_module("messages").read(path)]
        assert found == [("a", 0), ("b", 0), ("a", 1), ("talks.jsonl#3", 0)]


class TestTauBench:
    """The bench's own habits."""

    def entry(self, **changes: Any) -> list[dict[str, Any]]:
        """A file with one trial."""
        return [{**TAU_BENCH[0], **changes}]

    def test_the_scratch_pad_is_silent(self, tmp_path: Path) -> None:
        """A round that only thinks is not barren."""
        trial = read(
            "tau_bench", tmp_path, self.entry(traj=[asks(call("a", "think")), result("a", "")])
        )
        assert trial.trajectory.barren_round_count == 0
        assert trial.trajectory.tool_calls[0].is_silent

    def test_a_tool_that_does_not_exist_is_an_error(self, tmp_path: Path) -> None:
        """The bench tells it as ordinary text."""
        talk = [asks(call("a", "guess")), result("a", "Unknown action guess")]
        assert statuses(read("tau_bench", tmp_path, self.entry(traj=talk))) == [
            [("guess", "error")]
        ]

    def test_a_trial_that_the_bench_broke_has_no_reward(self, tmp_path: Path) -> None:
        """A reward of 0 would say that the agent failed."""
        broken = {"error": "Connection error.", "traceback": "…"}
        trial = read("tau_bench", tmp_path, self.entry(traj=[], reward=0.0, info=broken))
        assert (trial.status, trial.scores, trial.error) == (
            "harness_error",
            {},
            "Connection error.",
        )


class TestSweAgent:
    """A shell for a tool, and a program that ends trials."""

    def file(self, *steps: dict[str, Any], **info: Any) -> dict[str, Any]:
        """A trajectory of these steps."""
        return {**SWE_AGENT, "trajectory": list(steps), "info": {**SWE_AGENT["info"], **info}}  # type: ignore[dict-item]

    @pytest.mark.parametrize(
        ("action", "observation", "tool", "status"),
        [
            ("PYTHONPATH=. python a.py", "1", "python", "ok"),
            (
                "edit 1:2\nx\nend_of_edit",
                "No file open. Use the open command first.",
                "edit",
                "error",
            ),
            ("cat a.txt", "cat: a.txt: No such file or directory", "cat", "missing_path"),
            ("find_file a", 'No matches found for "a" in /repo', "find_file", "empty"),
            ("sleep 99", "EXECUTION TIMED OUT", "sleep", "error"),
            ("ls", None, "ls", "unanswered"),
        ],
    )
    def test_the_tool_is_the_first_word(
        self, action: str, observation: str | None, tool: str, status: str, tmp_path: Path
    ) -> None:
        """And what it brought is known by its words."""
        step = {"action": action, "observation": observation, "response": "…"}
        assert statuses(read("swe_agent", tmp_path, self.file(step))) == [[(tool, status)]]

    @pytest.mark.parametrize(
        ("exit_status", "status", "stop"),
        [
            ("submitted", "completed", "answered"),
            ("exit_cost", "completed", "cost_limit"),
            ("submitted (exit_context)", "completed", "truncated"),
            ("exit_format", "completed", "agent_error"),
            ("exit_api", "harness_error", "not_finished"),
            (None, "completed", "not_finished"),
            ("something new", "completed", "not_finished"),
        ],
    )
    def test_how_it_ended(
        self, exit_status: str | None, status: str, stop: str, tmp_path: Path
    ) -> None:
        """What was handed in at a limit ended at the limit."""
        trial = read("swe_agent", tmp_path, self.file(exit_status=exit_status))
        assert (trial.status, trial.stop_reason) == (status, stop)

    def test_an_exit_that_no_model_asked_for_is_no_round(self, tmp_path: Path) -> None:
        """The program writes its own last step; the model's own exit is a round."""
        forced = {"action": "exit_cost", "observation": "", "response": ""}
        own = {"action": "exit_forfeit", "observation": "", "response": "I give up."}
        trial = read("swe_agent", tmp_path, self.file(own, forced))
        assert len(trial.trajectory.rounds) == 1


class TestInspect:
    """Events within spans."""

    def span(self, span_id: str, kind: str, parent: str | None = None, name: str = "") -> Any:
        """The beginning of a part."""
        return {
            "event": "span_begin",
            "id": span_id,
            "type": kind,
            "parent_id": parent,
            "name": name or kind,
        }

    def test_a_judge_is_no_round(self, tmp_path: Path) -> None:
        """Within a scorer's span, within a scorer's step of older logs, or by its role."""
        newer = [self.span("s", "scorer"), {**answered(text="C"), "span_id": "s"}]
        older = [
            {"event": "step", "action": "begin", "type": "scorer", "name": "m"},
            answered(text="C"),
            {"event": "step", "action": "end", "type": "scorer", "name": "m"},
        ]
        by_role = [{**answered(text="C"), "role": "grader"}]
        agent = answered(text="yes", stop="stop")
        trial = read("inspect", tmp_path, log(sample(*newer, *older, *by_role, agent)))
        assert [one.text for one in trial.trajectory.rounds] == ["yes"]
        assert trial.trajectory.usage.total_tokens == 12

    def test_a_sub_agent_is_named(self, tmp_path: Path) -> None:
        """One within a tool of another agent; the agent itself has no name."""
        events = [
            self.span("main", "agent", name="react"),
            {**answered(inspect_call("c1", "delegate")), "span_id": "main"},
            self.span("tool", "tool", "main"),
            self.span("inner", "agent", "tool", "searcher"),
            {**answered(text="found", stop="stop"), "span_id": "inner"},
            {**tool_event("c1", "delegate", "found"), "span_id": "main"},
            {**answered(text="yes", stop="stop"), "span_id": "main"},
        ]
        rounds = read("inspect", tmp_path, log(sample(*events))).trajectory.rounds
        assert [one.agent for one in rounds] == [None, "searcher", None]
        assert rounds[0].tool_calls[0].status == "ok"

    def test_what_happened_within_a_tool_of_an_older_log(self, tmp_path: Path) -> None:
        """Its model's responses are a sub-agent's rounds."""
        inner = tool_event("c1", "delegate", "found", events=[answered(text="found", stop="stop")])
        events = [
            answered(inspect_call("c1", "delegate")),
            inner,
            answered(text="yes", stop="stop"),
        ]
        rounds = read("inspect", tmp_path, log(sample(*events))).trajectory.rounds
        assert [one.agent for one in rounds] == [None, "delegate", None]

    def test_a_failed_request_is_no_round(self, tmp_path: Path) -> None:
        """It is a retry, as are those that the model's client made itself."""
        failed = {"event": "model", "model": "m", "output": {"choices": []}, "error": "529"}
        again = {**answered(text="yes", stop="stop"), "retries": 2}
        trial = read("inspect", tmp_path, log(sample(failed, again)))
        assert len(trial.trajectory.rounds) == 1
        assert trial.retry_count == 3

    def test_without_events_the_messages_count(self, tmp_path: Path) -> None:
        """Those that were generated, not those that the sample gave as examples."""
        messages = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "an example", "source": "input"},
            {
                "role": "assistant",
                "content": "",
                "source": "generate",
                "model": "model-v1",
                "tool_calls": [inspect_call("c1", "look")],
            },
            {"role": "tool", "content": "[]", "tool_call_id": "c1", "function": "look"},
            {"role": "assistant", "content": "yes", "source": "generate"},
        ]
        trial = read("inspect", tmp_path, log(sample(messages=messages)))
        assert statuses(trial) == [[("look", "empty")], []]
        assert trial.served_model == "model-v1"

    def test_texts_that_are_kept_apart_are_found(self, tmp_path: Path) -> None:
        """A reference is not the result."""
        events = [
            answered(inspect_call("c1", "look")),
            tool_event("c1", "look", "attachment://abc"),
            answered(inspect_call("c2", "look")),
            tool_event("c2", "look", "tc://def"),
        ]
        kept = {"abc": "", "def": "No files found"}
        trial = read("inspect", tmp_path, log(sample(*events, attachments=kept)))
        assert statuses(trial) == [[("look", "empty")], [("look", "empty")]]

    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            # 10 + 2 = 12: the 6 cached tokens are among the 10.
            ({"input_tokens_cache_read": 6}, Usage(4, None, None, 6, 2, None)),
            # 10 + 2 + 6 + 3 = 21: they stand beside it.
            (
                {
                    "input_tokens_cache_read": 6,
                    "input_tokens_cache_write": 3,
                    "total_tokens": 21,
                },
                Usage(10, 3, 0, 6, 2, None),
            ),
            # Neither: nobody knows what the input is.
            (
                {"input_tokens_cache_read": 6, "total_tokens": 30},
                Usage(None, None, None, 6, 2, None),
            ),
            ({"reasoning_tokens": 1}, Usage(10, None, None, None, 2, 1)),
        ],
    )
    def test_each_token_is_counted_once(
        self, usage: dict[str, Any], expected: Usage, tmp_path: Path
    ) -> None:
        """The total tells whether the log's input holds what came from the cache."""
        trial = read("inspect", tmp_path, log(sample(answered(text="yes", **usage))))
        assert trial.trajectory.usage == expected

    @pytest.mark.parametrize(
        ("more", "status", "stop"),
        [
            ({"error": {"message": "boom"}}, "harness_error", "not_finished"),
            ({"limit": {"type": "message", "limit": 9}}, "completed", "round_limit"),
            ({"limit": {"type": "token", "limit": 9}}, "completed", "token_limit"),
            ({"limit": {"type": "working", "limit": 9}}, "completed", "time_limit"),
            ({"limit": {"type": "operator", "limit": 0}}, "completed", "not_finished"),
        ],
    )
    def test_how_it_ended(
        self, more: dict[str, Any], status: str, stop: str, tmp_path: Path
    ) -> None:
        """A limit is what it was; an error is nobody's failed trial."""
        trial = read("inspect", tmp_path, log(sample(answered(text="x"), **more)))
        assert (trial.status, trial.stop_reason) == (status, stop)

    def test_an_answer_that_was_cut_off(self, tmp_path: Path) -> None:
        """By the last response's own word."""
        trial = read("inspect", tmp_path, log(sample(answered(text="x", stop="max_tokens"))))
        assert trial.stop_reason == "truncated"

    def test_dollars_by_the_table_or_by_the_log(self, tmp_path: Path) -> None:
        """The served model's price, halved in a batch; the log's own sum where there is none."""
        price = Price("model-v1", START, (PriceBand(1e6, 1e6),), batch_discount=0.5)
        table = PriceTable("t", {"model-v1": (price,)})
        event = answered(text="yes", total_cost=0.25)
        trial = read("inspect", tmp_path, log(sample(event, event)))
        assert trial.cost_usd == 0.5
        assert trial.priced_usd(PriceTable("", {})) == 0.5
        assert trial.priced_usd(table) == pytest.approx(24.0)
        batch = {**event, "config": {"batch": True}}
        assert read("inspect", tmp_path, log(sample(batch))).priced_usd(table) == pytest.approx(6.0)
        unpriced = read("inspect", tmp_path, log(sample(event, answered(text="yes"))))
        assert unpriced.cost_usd is None
