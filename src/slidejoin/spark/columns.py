"""Columns: how Spark's types and Arrow's correspond.

Inside, a column has one Arrow type whatever the session says (its time zone and its preference for large
strings change the batches that Spark hands out): timestamps are microseconds in UTC, text is plain text. So
a schema means the same in every session, and a checkpoint can be compared with it.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from slidejoin.errors import SchemaError
from slidejoin.window.spec import SIDES

WATERMARK = "spark.watermarkDelayMs"  # how Spark marks the column of withWatermark

PLAIN: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.DayTimeIntervalType: pa.duration("us"),
    spark.NullType: pa.null(),
}


def arrow_schema(schema: spark.StructType, side: int) -> pa.Schema:
    """The columns of one side as they are packed; SchemaError for a type that Arrow and Spark do not share."""
    names = schema.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise SchemaError(
            f"the {SIDES[side]} DataFrame has several columns named {twice}; expected distinct names; rename them "
            "with withColumnRenamed or toDF"
        )
    return pa.schema(
        [
            pa.field(field.name, arrow_type(field.dataType, field.name, side), field.nullable)
            for field in schema.fields
        ]
    )


def arrow_type(kind: spark.DataType, column: str, side: int) -> pa.DataType:
    """The Arrow type of a Spark type, however deep."""
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        item = arrow_type(kind.elementType, column, side)
        return pa.list_(pa.field("element", item, kind.containsNull))
    if isinstance(kind, spark.MapType):
        key = pa.field("key", arrow_type(kind.keyType, column, side), nullable=False)
        return pa.map_(
            key, pa.field("value", arrow_type(kind.valueType, column, side), kind.valueContainsNull)
        )
    if isinstance(kind, spark.StructType):
        return pa.struct(
            [pa.field(f.name, arrow_type(f.dataType, column, side), f.nullable) for f in kind.fields]
        )
    plain = PLAIN.get(type(kind))
    if plain is None:
        raise SchemaError(
            f"the {SIDES[side]} column {column!r} is {kind.simpleString()}; expected a type that Arrow and Spark "
            "share; cast it, or drop it before the join"
        )
    return plain


def canonical(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as Spark hands it out, in the types that rows are packed in."""
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def result_schema(
    sides: tuple[spark.StructType, spark.StructType], result: pa.Schema, extra: list[spark.StructField]
) -> spark.StructType:
    """The Spark schema of a result: names and nullability as ``result`` has them, types as they came."""
    fields = [field for side in sides for field in side.fields][: len(result)]
    renamed = []
    for field, column in zip(fields, result, strict=True):
        # What comes out has no watermark of Spark's, whatever the input's column promised.
        metadata = {name: value for name, value in (field.metadata or {}).items() if name != WATERMARK}
        renamed.append(spark.StructField(column.name, field.dataType, column.nullable, metadata))
    return spark.StructType(renamed + extra)
