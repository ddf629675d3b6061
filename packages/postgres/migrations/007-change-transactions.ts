import { type Kysely, sql } from 'kysely'

export const oldestBuild = 1

export async function up(db: Kysely<never>): Promise<void> {
  // A trigger, so that polls of this build also see the changes of builds that set only `changed_at`.
  await sql`
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      NEW.changed_xid := pg_current_xact_id();
      RETURN NEW;
    END $$`.execute(db)
  for (const table of ['api_keys', 'sites']) {
    const name = sql.table(table)
    // Null: not changed since this migration; for a site also: registered by an event and never changed.
    await sql`ALTER TABLE ${name} ADD COLUMN changed_xid xid8`.execute(db)
    await sql`
      CREATE INDEX ${sql.ref(`${table}_changed_xid`)} ON ${name} (changed_xid) WHERE changed_xid IS NOT NULL`.execute(
      db,
    )
    await sql`
      CREATE TRIGGER note_change BEFORE INSERT OR UPDATE OF changed_at ON ${name}
      FOR EACH ROW WHEN (NEW.changed_at IS NOT NULL) EXECUTE FUNCTION note_change()`.execute(db)
  }
}
