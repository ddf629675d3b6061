import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

/** Where Debian puts PostgreSQL, by release. */
const root = '/usr/lib/postgresql'

/**
 * The folder of the newest complete PostgreSQL that is installed on this machine; undefined when there is none. The
 * embedded one has no `pg_dump`, and the `pg_dump` of another release may refuse its server.
 */
export function postgresPrograms(): string | undefined {
  if (!existsSync(root)) return undefined
  const releases = readdirSync(root).sort((a, b) => Number(b) - Number(a))
  return releases
    .map((release) => join(root, release, 'bin'))
    .find((folder) => ['initdb', 'postgres', 'pg_dump', 'pg_restore'].every((name) => existsSync(join(folder, name))))
}

/** What to install when `postgresPrograms` finds nothing. */
export const postgresProgramsMissing = 'apt-get install postgresql'
