"""A DataFrame's Arrow batches become batches of the table's columns; what does not fit names its row."""

import pickle
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.codec.arrow import arrow_type
from herdpy_spark.writing.conforming import ColumnError, Conformer, RowError, matched
from herdpy_spark.writing.plan import of_table, target_columns
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.types import Base, EnumType, SqlType, array_of

LARGE = 1 << 30
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("amount", pa.decimal128(6, 2)),
        pa.field("place", pa.string()),
        pa.field("exact", pa.string()),
        pa.field("token", pa.uuid()),
    ]
)


TABLE = Table(
    1,
    "orders",
    tuple(
        Column(name, sql_type, not_null=name == "id")
        for name, sql_type in {
            "id": SqlType(Base.INTEGER),
            "amount": SqlType(Base.NUMERIC, precision=6, scale=2),
            "place": SqlType(Base.TEXT),
            "exact": SqlType(Base.NUMERIC),
            "token": SqlType(Base.UUID),
        }.items()
    ),
    (KeyPart(0),),
    "orders_pkey",
)


def conformer(*names, constants=None, key=("id",), partition=None):
    columns = [c for c in of_table(target_columns(SCHEMA), TABLE) if not names or c.name in names]
    return Conformer(columns, constants, key=key, partition=partition)


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def only(conformer, given):
    (whole,) = conformer.batches(given, LARGE)
    return whole


MOOD = SqlType(Base.ENUM, enum=EnumType(9, "public", "mood", (("new", 1.0), ("old", 2.0))))


def moods(*values):
    table = replace(TABLE, columns=(Column("id", SqlType(Base.INTEGER)), Column("mood", MOOD)))
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("mood", pa.float64())])
    made = Conformer(of_table(target_columns(schema), table), key=("id",))
    given = batch(id=list(range(len(values))), mood=list(values))
    made.check(given.schema)
    return only(made, given).column("mood").to_pylist()


def test_labels_become_places_and_numbers_are_none():
    assert moods("old", None, "new") == [2.0, None, 1.0]
    with pytest.raises(RowError, match=r'row 2 \(id = 1\), column "mood": .* for enum mood: "bad"'):
        moods("new", "bad")
    with pytest.raises(ColumnError, match="cannot be stored as mood"):
        moods(2.0)


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        (Base.INTEGER, pa.array([1.0, 1.5]), None),
        (Base.INTEGER, pa.array([Decimal("1.0"), Decimal("1.5")]), None),
        (Base.DATE, pa.array([0, 1], pa.timestamp("us")), None),
        (Base.DATE, pa.array([0, 86_400_000_000], pa.timestamp("us")), [0, 1]),
        (Base.NUMERIC, pa.array([Decimal("1.0049"), Decimal("1.005")]), [Decimal("1.00"), Decimal("1.01")]),
        (Base.BOOLEAN, pa.array([1, 0]), ColumnError),
        (Base.TIMESTAMP, pa.array([1, 0]), ColumnError),
    ],
)
def test_a_value_is_exact_or_rounded_or_refused_with_its_row(kind, given, kept):
    type_ = SqlType(kind, precision=6, scale=2) if kind is Base.NUMERIC else SqlType(kind)
    made = Conformer(target_columns(pa.schema([pa.field("v", arrow_type(type_.field, type_.precision))])))
    rows = pa.RecordBatch.from_arrays([given], ["v"])
    if isinstance(kept, type):
        with pytest.raises(kept):
            only(made, rows)
    elif kept is None:
        with pytest.raises(RowError, match="row 2"):
            only(made, rows)
    else:
        column = only(made, rows).column("v")
        assert (column.cast(pa.int32()) if kind is Base.DATE else column).to_pylist() == kept


def test_columns_are_found_by_name_in_any_order_and_case():
    given = batch(PLACE=["x"], Id=pa.array([7], pa.int64()))
    assert only(conformer("id", "place"), given).to_pylist() == [{"id": 7, "place": "x"}]


def test_types_become_the_tables():
    given = batch(
        id=pa.array([1, 2], pa.int8()),
        amount=pa.array([1.005, None], pa.float64()),
        place=pa.array(["a", "b"]).dictionary_encode(),
        exact=pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        token=["6a2f41a3-c54c-fce8-32d2-0324e1c32e22", None],
    )
    made = only(conformer(), given)
    assert made.schema.types == SCHEMA.types
    assert made.column("amount").to_pylist() == [Decimal("1.01"), None]
    assert made.column("exact").to_pylist() == ["1.50", None]
    assert str(made.column("token")[0].as_py()) == "6a2f41a3-c54c-fce8-32d2-0324e1c32e22"


def test_a_value_that_does_not_fit_names_row_key_and_column():
    part = conformer("id", "amount", partition=3)
    list(part.batches(batch(id=[1, 2], amount=[Decimal(1), Decimal(2)]), LARGE))
    with pytest.raises(RowError) as caught:
        list(part.batches(batch(id=[41, 42], amount=[Decimal("1.00"), Decimal("12345.67")]), LARGE))
    assert (caught.value.row, caught.value.column) == (4, "amount")
    assert str(caught.value).startswith(
        "row 4 of partition 3 (id = 42), column \"amount\": Decimal('12345.67')"
    )


def test_an_integer_out_of_range_is_named():
    with pytest.raises(
        RowError, match=r'row 2 \(id = 4294967296\), column "id": 4294967296 does not fit int32'
    ):
        only(conformer("id"), batch(id=[1, 2**32]))


def test_a_null_where_none_may_be_is_named():
    with pytest.raises(
        RowError, match=r'row 2 \(id = None\), column "id": NULL in a column that is NOT NULL'
    ):
        only(conformer("id"), batch(id=pa.array([1, None], pa.int32())))


def test_errors_survive_the_way_to_the_driver():
    error = RowError(3, "amount", "too large", "id = 42")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.row, copy.column) == (str(error), 3, "amount")


def test_columns_not_given_get_their_constants():
    constants = batch(place=["here"], exact=[None])
    part = conformer("id", "place", "exact", constants=constants)
    assert only(part, batch(id=[1, 2])).to_pylist() == [
        {"id": 1, "place": "here", "exact": None},
        {"id": 2, "place": "here", "exact": None},
    ]


def test_a_column_without_value_or_default_is_refused():
    with pytest.raises(ColumnError, match="no column place"):
        only(conformer("id", "place"), batch(id=[1]))


def test_a_column_that_the_table_has_not_is_refused():
    with pytest.raises(ColumnError, match='no column "plaec"; it has id, place'):
        only(conformer("id", "place"), batch(id=[1], plaec=["x"]))


def test_a_column_given_twice_is_refused():
    with pytest.raises(ColumnError, match='"place" twice'):
        matched(["place", "Place"], ["id", "place"])


def test_a_name_that_may_be_two_columns_is_refused():
    assert matched(["a"], ["a", "A"]) == {"a": "a"}
    with pytest.raises(ColumnError, match="each of"):
        matched(["Aa"], ["aa", "AA"])


def test_a_type_that_cannot_be_stored_is_refused_before_any_row():
    schema = pa.schema([("id", pa.list_(pa.int32())), ("place", pa.string())])
    with pytest.raises(
        ColumnError, match=r'column "id": .*list<.* cannot be stored as INT32: cast it in Spark'
    ):
        conformer("id", "place").check(schema)
    conformer("id", "place").check(pa.schema([("id", pa.int64()), ("place", pa.string())]))


def test_a_type_not_known_is_refused():
    with pytest.raises(ValueError, match=r'column "x" of a load has the Arrow type struct'):
        target_columns(pa.schema([("x", pa.struct([("a", pa.int32())]))]))


def test_lists_are_arrays_and_text_is_what_spark_has_no_type_for():
    (column,) = target_columns(pa.schema([("x", pa.list_(pa.list_(pa.decimal128(10, 2))))]))
    assert (column.type, column.precision) == (pa.list_(pa.list_(pa.decimal128(10, 2))), 10)
    spans = array_of(Base.INTERVAL, 2)
    known = replace(column, field=spans.field, precision=None, sql=spans)
    made = Conformer([known])
    texts = pa.array([[["1 day", None], ["2 h", "-1 mon"]], None, [["1 day"], ["later"]]])
    (kept,) = made.batches(pa.record_batch({"x": texts.slice(0, 2)}), 1 << 20)
    wanted = [[(0, 1, 0), None], [(0, 0, 7_200_000_000_000), (-1, 0, 0)]]
    assert kept.column(0).to_pylist() == [wanted, None]
    with pytest.raises(RowError, match=r'row 5 .*invalid input syntax for type interval: "later"'):
        list(made.batches(pa.record_batch({"x": texts}), 1 << 20))


@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(1, 4000))
def test_slices_hold_every_row_once_in_order_and_are_small(sizes, max_bytes):
    given_batch = batch(
        id=pa.array(range(len(sizes)), pa.int32()), place=pa.array(["x" * n for n in sizes], pa.string())
    )
    part = conformer("id", "place")
    slices = list(part.batches(given_batch, max_bytes))
    rows = [row for one in slices for row in one.to_pylist()]
    assert rows == given_batch.to_pylist()
    assert part.rows == len(sizes)
    assert all(one.num_rows == 1 or one.nbytes <= max_bytes for one in slices)
