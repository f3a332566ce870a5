"""Inputs that broke comparable tools, in one list. Fix the kind, not the one input.

`TEXTS` are what a person may type into the text box (one sentence a line), `ARCHITECTURES` what they may choose.
"""

from explorer import EncoderConfig


def words(n: int) -> str:
    """A sentence of n different words."""
    return " ".join(f"word{i}" for i in range(n))


TEXTS: dict[str, str] = {
    "repeated word": "the cat the",
    "numbers": "1 2 10",
    "years": "In 2020 we 2021",
    "dates": "2020-01 2020-02 May",
    "sentence tags": "<s> a </s>",
    "html": "<b>x a<br>b",
    "script": "</script><script>alert(1)</script>",
    "dollars": "costs $5 or $6",
    "latex": "$x$",
    "streamlit directives": ":red[b] :smile:",
    "markdown": "`x` *y* _z_ [a](b)",
    "empty": "",
    "spaces": "   ",
    "newlines": "\n\n\r\n",
    "blank line between": "first\n\nsecond",
    "one word": "Hello",
    "chinese": "中文句子",
    "emoji": "\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "composed and decomposed": "caf\u00e9 cafe\u0301",
    "invisible": "a\u200bb \u202ec d\u00a0e f\u3000g",
    "arabic": "القطة تجلس على السجادة",
    "200 characters": "x" * 200,
    "60 words": words(60),
    "128 words": words(128),
    "512 words": words(512),
    "2,000 words": words(2_000),
    "twice": "the same sentence\nthe same sentence",
    "lengths 1 and 20": f"one\n{words(20)}",
    "typed [PAD]": "a [PAD] b",
    "formula": "=1+1",
    "tab and quotes": "a\tb \"c\" 'd'",
    "path": "../../x",
}

ARCHITECTURES: dict[str, EncoderConfig] = {
    f"{name}, {placement}": EncoderConfig(**{"n_layers": 2, "max_len": 32, "norm_placement": placement} | sizes)
    for placement in ("post", "pre")
    for name, sizes in {
        "1 layer": {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 16},
        "1 head": {"n_heads": 1, "d_model": 8, "d_ff": 16},
        "H = D": {"n_heads": 8, "d_model": 8, "d_ff": 16},
        "D 7": {"n_heads": 1, "d_model": 7, "d_ff": 5},
        "D 9, H 3": {"n_heads": 3, "d_model": 9, "d_ff": 4},
        "H == length == batch": {"n_heads": 3, "d_model": 12, "d_ff": 24},
        "all parts": {
            "n_heads": 4,
            "d_model": 16,
            "d_ff": 32,
            "activation": "gelu",
            "positions": "learned",
            "embedding_norm": True,
            "n_segments": 2,
            "vocab_size": 50,
        },
        "no bias": {"n_heads": 2, "d_model": 8, "d_ff": 16, "bias": False, "positions": "none", "activation": "silu"},
    }.items()
}
