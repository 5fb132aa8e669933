"""A stand-in for what acceptd needs of Timescale: hypertables by inheritance, on any PostgreSQL.

As with the real thing a hypertable is a plain table (`relkind` r) whose rows lie in a child for each day, made by the
first row; the children are listed in `timescaledb_information.chunks`; `hypertable_size` is null for other tables; a
key without the time is refused. Unlike it, no key is unique across statements.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

_STAND_IN = """
CREATE SCHEMA timescaledb_information;
CREATE SCHEMA _timescaledb_internal;
GRANT USAGE ON SCHEMA timescaledb_information TO PUBLIC;
CREATE VIEW timescaledb_information.chunks AS
    SELECT pn.nspname AS hypertable_schema, p.relname AS hypertable_name,
        cn.nspname AS chunk_schema, c.relname AS chunk_name,
        obj_description(c.oid)::timestamptz AS range_start,
        obj_description(c.oid)::timestamptz + interval '24 hours' AS range_end
    FROM pg_inherits JOIN pg_class p ON p.oid = inhparent JOIN pg_class c ON c.oid = inhrelid
    JOIN pg_namespace pn ON pn.oid = p.relnamespace JOIN pg_namespace cn ON cn.oid = c.relnamespace
    WHERE cn.nspname = '_timescaledb_internal';
GRANT SELECT ON timescaledb_information.chunks TO PUBLIC;
CREATE FUNCTION route() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    day timestamptz;
    chunk text;
BEGIN
    FOR day IN EXECUTE format('SELECT DISTINCT date_trunc(''day'', end_at, ''UTC'') FROM ONLY %I', TG_TABLE_NAME) LOOP
        chunk := format('_timescaledb_internal._hyper_%s_%s_chunk', TG_RELID, extract(epoch FROM day)::bigint / 86400);
        IF to_regclass(chunk) IS NULL THEN
            EXECUTE format('CREATE TABLE %s (LIKE %I INCLUDING INDEXES) INHERITS (%2$I)', chunk, TG_TABLE_NAME);
            EXECUTE format('COMMENT ON TABLE %s IS %L', chunk, day);
        END IF;
        EXECUTE format('WITH moved AS (DELETE FROM ONLY %I WHERE date_trunc(''day'', end_at, ''UTC'') = $1 RETURNING *)'
            ' INSERT INTO %s SELECT * FROM moved', TG_TABLE_NAME, chunk) USING day;
    END LOOP;
    RETURN NULL;
END $$;
CREATE FUNCTION create_hypertable(
    relation regclass, time_column_name name, chunk_time_interval interval, create_default_indexes boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ASSERT chunk_time_interval = '1 day' AND NOT create_default_indexes;
    ASSERT (SELECT attnum = ANY (indkey::int2[]) FROM pg_attribute, pg_index WHERE attrelid = relation
        AND attname = time_column_name AND indrelid = relation AND indisprimary), relation;
    EXECUTE format('CREATE TRIGGER route AFTER INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION route()', relation);
END $$;
CREATE FUNCTION hypertable_size(hypertable regclass) RETURNS bigint LANGUAGE sql AS
    'SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent
    WHERE inhparent = hypertable AND relkind = ''r''';
"""


def as_documented(connection: Connection) -> None:
    """Make hypertables by the statements in docs/configuration.md."""
    page = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
    said = page.partition("**Timescale**")[2].partition("```sql")[2].partition("```")[0]
    assert said.count(";") == 10
    for statements in (_STAND_IN, said):
        connection.connection.cursor().execute(statements)
