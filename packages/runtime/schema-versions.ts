import { internalError } from './errors.ts'

/**
 * The number of this build. Each release raises it by one. Each migration names the oldest build that can work with the
 * schema that it leaves, so that builds before and after it run side by side, and a release can be taken back without
 * touching a database.
 */
export const thisBuild = 2

/**
 * The oldest build that can work with a store on several shards: earlier ones would store all events on one of them.
 */
export const oldestBuildOfShards = 2

/** Names of applied migrations, each with the oldest build that can work with it; null: not noted. */
export type AppliedMigrations = readonly (readonly [name: string, oldestBuild: number | null])[]

/** The migrations that an engine has applied, and those that this build knows. */
export interface SchemaVersions {
  /** The engine's name in the error: `Postgres`. */
  engine: string
  /** The migrations that the engine has applied, each with the oldest build that can work with it; null: not noted. */
  applied: ReadonlyMap<string, number | null>
  /** Names of the migrations of this build, in order. */
  known: readonly string[]
}

/**
 * Returns the migrations that this build has to apply, in order: none on a schema that a newer build left. Throws
 * AppError `internal`, with what to do, when this build is too old for the schema, or when each has migrations that the
 * other lacks.
 */
export function missingMigrations(versions: SchemaVersions): readonly string[] {
  rejectUnworkableSchema(versions)
  const { engine, applied, known } = versions
  const missing = known.filter((name) => !applied.has(name))
  const unknown = unknownMigrations(versions)
  if (missing.length > 0 && unknown.length > 0) {
    throw internalError(
      `The ${engine} schema is of another line of builds (unknown: ${unknown.join(', ')}; missing: ${missing.join(', ')}). ` +
        'Run a build of that line.',
    )
  }
  return missing
}

/** Throws AppError `internal`, with what to do, when this build can't work with the engine's schema. */
export function requireWorkableSchema(versions: SchemaVersions): void {
  const missing = missingMigrations(versions)
  if (missing.length === 0) return
  throw internalError(
    `The ${versions.engine} schema is older than this build (missing: ${missing.join(', ')}). Run "npm run migrate".`,
  )
}

function rejectUnworkableSchema(versions: SchemaVersions): void {
  const { engine, applied } = versions
  const unworkable = unknownMigrations(versions).flatMap((name) => {
    const oldestBuild = applied.get(name) ?? null
    if (oldestBuild === null) return [name]
    return oldestBuild > thisBuild ? [`${name} needs build ${oldestBuild}`] : []
  })
  if (unworkable.length === 0) return
  throw internalError(
    `The ${engine} schema is newer than this build, ${thisBuild} (unknown: ${unworkable.join(', ')}). Run the newer build.`,
  )
}

/** Names of applied migrations that this build does not have. */
function unknownMigrations({ applied, known }: SchemaVersions): string[] {
  return [...applied.keys()].filter((name) => !known.includes(name))
}
