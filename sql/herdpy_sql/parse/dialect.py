"""sqlglot's postgres dialect, held to what PostgreSQL reads.

sqlglot's dialects share their words: a keyword, a type or a function of another database is known to all of
them. What PostgreSQL has not is taken out here, so that it is a name as any other, and the error is
PostgreSQL's: no such function (42883), no such type (42704), or the syntax error (42601). Its parsers are
compiled and cannot be derived from, so the tables of its postgres parser are changed in place.
"""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.postgres import Postgres


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


OTHERS_KEYWORDS = _split(
    """
    ANTI ASOF AUTOINCREMENT AUTO_INCREMENT UNCACHE FILE GLOB KEEP KILL NAMESPACE XOR OVERWRITE
    PARTITIONED_BY PERCENT PIVOT UNPIVOT PRAGMA QUALIFY REGEXP RLIKE SEMI SETTINGS STRAIGHT_JOIN USE
    APPLY OPTIMIZE EXEC GEOGRAPHY GEOMETRY HSTORE STRUCT VARIANT LIST MAP NULLABLE BYTE MEDIUMINT INT1
    TINYINT INT16 SHORT HUGEINT UHUGEINT INT32 INT64 INT128 INT256 LONG UINT UINT128 UINT256 DECIMAL32
    DECIMAL64 DECIMAL128 DECIMAL256 DECFLOAT BIGDECIMAL BIGNUMERIC BIGNUM NUMBER FIXED DOUBLE NVARCHAR
    NVARCHAR2 VARCHAR2 STR STRING LONGTEXT MEDIUMTEXT TINYTEXT CLOB LONGVARCHAR BLOB LONGBLOB MEDIUMBLOB
    TINYBLOB VARBINARY DATETIME TIME_NS TIMESTAMPLTZ TIMESTAMP_LTZ TIMESTAMPNTZ TIMESTAMP_NTZ
    """
) | {"CLUSTER BY", "CONNECT BY", "DISTRIBUTE BY", "PARTITIONED BY", "SORT BY", "=="}
"""Keywords, operators and names of types that other databases have and PostgreSQL has not."""
_MADE_OTHERWISE = frozenset({"<<->>", "-|-", "&<"})
"""Operators whose tokens pgvector's operators take."""

READ_FUNCTIONS = _split(
    """
    ABS ACOS ARRAY ARRAY_AGG ARRAY_APPEND ARRAY_CAT ARRAY_LENGTH ARRAY_POSITION ARRAY_PREPEND
    ARRAY_REMOVE ARRAY_TO_STRING ASCII ASIN ATAN ATAN2 AVG BIT_AND BIT_LENGTH BIT_OR BIT_XOR BOOL_AND
    BOOL_OR BTRIM CASE CAST CBRT CEIL CEILING CHARACTER_LENGTH CHAR_LENGTH CHR COALESCE CONCAT CONCAT_WS
    CORR COS COUNT COVAR_POP COVAR_SAMP CUME_DIST CURRENT_CATALOG CURRENT_DATABASE CURRENT_DATE
    CURRENT_ROLE CURRENT_SCHEMA CURRENT_SCHEMAS CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DECODE
    DEGREES DENSE_RANK DIV ENCODE EXISTS EXP EXTRACT FACTORIAL FIRST_VALUE FLOOR FORMAT GENERATE_SERIES
    GEN_RANDOM_UUID GREATEST GROUPING INITCAP JSONB_CONTAINS JSONB_EXISTS JSONB_OBJECT_AGG
    JSON_EXTRACT_PATH JSON_EXTRACT_PATH_TEXT JSON_OBJECT_AGG JUSTIFY_DAYS JUSTIFY_HOURS JUSTIFY_INTERVAL
    LAG LAST_VALUE LEAD LEAST LEFT LENGTH LIKE LN LOCALTIME LOCALTIMESTAMP LOG LOWER LPAD LTRIM
    MAKE_INTERVAL MAKE_TIME MAKE_TIMESTAMP MAX MD5 MIN MOD MODE NORMALIZE NOW NTH_VALUE NTILE NULLIF
    OVERLAY PERCENTILE_CONT PERCENTILE_DISC PERCENT_RANK PI POW POWER RADIANS RANDOM RANK REGEXP_COUNT
    REGEXP_INSTR REGEXP_REPLACE REGEXP_SUBSTR REGR_AVGX REGR_AVGY REGR_COUNT REGR_INTERCEPT REGR_R2
    REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY REPEAT REPLACE REVERSE RIGHT ROUND ROW_NUMBER RPAD RTRIM
    SESSION_USER SHA256 SHA384 SHA512 SIGN SIN SPLIT_PART SQRT STARTS_WITH STDDEV STDDEV_POP STDDEV_SAMP
    STRING_TO_ARRAY STRPOS SUBSTR SUBSTRING SUM TAN TIME TIMESTAMP TO_HEX TO_NUMBER TRANSLATE TRIM TRUNC
    UNNEST UPPER VARIANCE VAR_POP VAR_SAMP VERSION WIDTH_BUCKET XMLELEMENT
    """
)
"""The functions that become nodes of their own; all others stay calls by name. So do some that sqlglot knows:
templates and strides are texts, log10 is no log of two numbers, a unit of date_trunc is any text."""
READ_FORMS = _split(
    """
    CAST CEIL CHR DECODE EXTRACT FLOOR INITCAP JSONB_EXISTS JSON_AGG NORMALIZE OVERLAY POSITION
    STRING_AGG SUBSTRING TRIM XMLELEMENT XMLTABLE
    """
)
"""The functions whose arguments have a grammar of their own. date_part is none: it takes any text, and gives
a float."""


class HerdPostgres(Postgres):
    """PostgreSQL's dialect without dollar quotes, which the lexer has made plain strings already."""

    INDEX_OFFSET = 0  # subscripts stay as they are written
    VALID_INTERVAL_UNITS = {f"SECOND({digits})" for digits in range(7)}  # noqa: RUF012 - see whole_intervals

    class Tokenizer(Postgres.Tokenizer):
        HEREDOC_STRINGS = []  # noqa: RUF012 - sqlglot's way of declaring it
        # pgvector's operators and those of networks, as tokens that nothing else needs.
        KEYWORDS = {  # noqa: RUF012
            **{
                word: token
                for word, token in Postgres.Tokenizer.KEYWORDS.items()
                if word not in _MADE_OTHERWISE and word not in OTHERS_KEYWORDS
            },
            "<#>": TokenType.LLRR_ARROW,
            "<+>": TokenType.ADJACENT,
            "<=>": TokenType.AMP_LT,
            "<<=": TokenType.AMP_GT,
            ">>=": TokenType.GLOB,
            "BIT VARYING": TokenType.MEDIUMBLOB,
            "VARBIT": TokenType.MEDIUMBLOB,
        }
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012


def _keep_what_is_read() -> None:
    parser = Postgres.Parser
    for table, kept in ((parser.FUNCTIONS, READ_FUNCTIONS), (parser.FUNCTION_PARSERS, READ_FORMS)):
        for name in [one for one in table if one not in kept]:
            del table[name]
    for name in ("CONNECT_BY_ROOT", "IF"):
        parser.NO_PAREN_FUNCTION_PARSERS.pop(name, None)


def _write_operators() -> None:
    """Write the nodes that stand for operators of networks and for BIT VARYING (see the tokenizer) so."""
    transforms = Postgres.Generator.TRANSFORMS
    transforms[exp.ExtendsRight] = lambda self, node: self.binary(node, "<<=")
    transforms[exp.Glob] = lambda self, node: self.binary(node, ">>=")
    Postgres.Generator.TYPE_MAPPING[exp.DataType.Type.MEDIUMBLOB] = "BIT VARYING"


_keep_what_is_read()
_write_operators()
