import { AppError } from './errors.ts'

export interface SchemaVersions {
  /** The engine's name in the error: `Postgres`. */
  engine: string
  /** Names of the migrations that the engine has applied. */
  applied: readonly string[]
  /** Names of the migrations of this build, in order. */
  known: readonly string[]
}

/** Throws AppError `internal`, with what to do, when the engine has applied migrations that this build does not know. */
export function rejectNewerSchema({ engine, applied, known }: SchemaVersions): void {
  const unknown = applied.filter((name) => !known.includes(name))
  if (unknown.length === 0) return
  throw wrongSchema(
    `The ${engine} schema is newer than this build (unknown: ${unknown.join(', ')}). Run the newer build.`,
  )
}

/** Throws AppError `internal`, with what to do, when the engine's schema is newer or older than this build. */
export function requireCurrentSchema(versions: SchemaVersions): void {
  rejectNewerSchema(versions)
  const { engine, applied, known } = versions
  const missing = known.filter((name) => !applied.includes(name))
  if (missing.length === 0) return
  throw wrongSchema(
    `The ${engine} schema is older than this build (missing: ${missing.join(', ')}). Run "npm run migrate".`,
  )
}

function wrongSchema(internal: string): AppError {
  return new AppError('internal', { message: 'Internal server error', internal })
}
