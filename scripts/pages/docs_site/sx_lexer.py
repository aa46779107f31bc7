"""Colors for the text form of graphs (docs/reference/text_form.md) on the site. A hook of mkdocs, and the lexer that it makes known to Pygments."""

import sys

from pygments import lexers
from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

__all__ = ["SxLexer"]  # what Pygments loads

TYPES = (
    r"\b(?:f64|f32|f16|bf16|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f8e8m0|f4e2m1|i64|i32|i16|i8|i4|i2|u64|u32|u16|u8|u6|u4|u3|u2|u1|bool"
    r"|c64|c128|str|key|token|seq|optional|map|sparse|list|tuple|state|opaque)\b"
)


class SxLexer(RegexLexer):
    name = "Sardonyx text form"
    aliases = ("sx",)
    tokens = {
        "root": [
            (r"//.*", Comment.Single),
            (r'%?"(?:\\.|[^"\\])*"', String),
            (r"\b(graph|function|return|opset|case|pass|lower|info|range|ir_version|mil_opset|doc|meta|as)\b", Keyword),
            (TYPES, Keyword.Type),
            (r"((?:[\w.]+::)?[A-Za-z_]\w*)(?=[<(])", Name.Function),
            (r"%?[A-Za-z_][\w.]*|%\d+", Name),
            (r"-?\d[\w.+]*", Number),
            (r"=>|[=<>*+/-]", Operator),
            (r"[()\[\]{},:]", Punctuation),
            (r"(\s+|.)", bygroups(Text)),
        ]
    }


def on_config(config, **_):
    """mkdocs calls this before it builds: Pygments finds the lexer by its alias, in this module."""
    sys.modules["sx_lexer"] = sys.modules[__name__]
    lexers.LEXERS["SxLexer"] = ("sx_lexer", SxLexer.name, SxLexer.aliases, (), ())
    return config
