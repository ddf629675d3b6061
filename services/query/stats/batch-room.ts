import { statsLimits, type StatsResult } from '@sluice/contracts/stats'
import type { QueryResult } from '@sluice/event-store/clickhouse/client'
import type { QueryRunner } from '@sluice/event-store/clickhouse/query-runner'
import { type AppError, invalidField } from '@sluice/runtime/errors'

/** Called with each result that a batch keeps until its end. */
export type CountResult = (result: QueryResult<object>) => void

/** What a batch keeps in memory until its last query is answered. */
export interface BatchRoom {
  /** Throws 400 once the batch has too many entries or too much text. */
  requireRoom: () => void
  /** Counts a result of ClickHouse. Throws as `requireRoom`. */
  countResult: CountResult
  /** Counts the entries of an answer. Throws as `requireRoom`. */
  countAnswer: (data: StatsResult) => void
}

/** The room of one batch, which holds nothing yet. */
export function batchRoom(): BatchRoom {
  let entries = 0
  // Counted separately, because queries that share a result repeat its texts.
  let answeredCharacters = 0
  let heldCharacters = 0

  function requireRoom(): void {
    if (entries > statsLimits.batchEntriesMax) throw tooMany(`${statsLimits.batchEntriesMax} entries`)
    if (Math.max(answeredCharacters, heldCharacters) > statsLimits.batchCharactersMax) {
      throw tooMany(`${statsLimits.batchCharactersMax} characters of text`)
    }
  }

  return {
    requireRoom,
    countResult: ({ rows }) => {
      heldCharacters += charactersOf(rows)
      requireRoom()
    },
    countAnswer: ({ breakdown = [], compare }) => {
      const listed = [...breakdown, ...(compare?.breakdown ?? [])]
      entries += listed.length
      answeredCharacters += charactersOf(listed)
      requireRoom()
    },
  }
}

/** Characters of the texts in JSON, where a control character takes six. */
function charactersOf(rows: readonly object[]): number {
  let characters = 0
  for (const row of rows) {
    for (const value of Object.values(row)) characters += typeof value === 'string' ? JSON.stringify(value).length : 0
  }
  return characters
}

function tooMany(what: string): AppError {
  return invalidField('queries', `may together return at most ${what}: send fewer queries in one request`)
}

/** The runner, whose results are counted; it rejects with what `count` throws. */
export function countingRunner(runner: QueryRunner, count: CountResult): QueryRunner {
  return {
    ...runner,
    query: async <Row>(...query: Parameters<QueryRunner['query']>) => {
      const result = await runner.query<Row & object>(...query)
      count(result)
      return result
    },
  }
}
