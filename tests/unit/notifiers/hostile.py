"""Text that tries to act: on a terminal, in Slack, in HTML, or on a limit."""

from __future__ import annotations

from hypothesis import strategies as st

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "nul \x00 bell \x07 backspace \x08\x08\x08 delete \x7f",
    "line\nok   tone 40/40 = 100 %\r\nfake\rreturn",
    "override \u202etxt.exe\u202c \u2066isolate\u2069 \u200fmark",
    "lone \ud800 surrogate \udfff",
    "zero\u200bwidth\ufeff \U000e0041tag \u2028line \u2029paragraph \ufffe noncharacter",
    "<!channel> <@U123> <#C123> <https://evil.example|click> &amp; <!here|x>",
    "<script>alert(1)</script> *bold* _italic_ ~strike~ `code` ```block```",
    "$(rm -rf ~) `id` ; reboot # ' \" \\",
    "@channel @everyone :rotating_light: https://evil.example/steal",
    "",
    " ",
    "x" * 10_000,
    "\U0001f600" * 5_000,
    "\\" * 6_000,
    "a\n" * 4_000,
)

any_text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(codec=None), max_size=60),
    st.text(max_size=400),
)
