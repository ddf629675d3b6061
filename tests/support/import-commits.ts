import { sql } from 'kysely'
import type { Postgres } from '@sluice/postgres/open'

/** After this call, every commit of a segment by any process adds a row to `commits`, even if it changes nothing. */
export async function noteCommits({ db }: Postgres): Promise<void> {
  await sql`CREATE TABLE commits (import_id text, n int)`.execute(db)
  await sql`
    CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO commits VALUES (NEW.import_id, NEW.n);
      RETURN NEW;
    END $$`.execute(db)
  await sql`
    CREATE TRIGGER note_commit AFTER UPDATE ON import_segments FOR EACH ROW EXECUTE FUNCTION note_commit()`.execute(db)
}

/** The commits as `<import_id>/<n>`, in order. */
export async function commitsOfSegments({ db }: Postgres): Promise<string[]> {
  const { rows } = await sql<{ commit: string }>`
    SELECT import_id || '/' || n AS commit FROM commits ORDER BY 1`.execute(db)
  return rows.map(({ commit }) => commit)
}
