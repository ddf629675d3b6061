import type { ClickHouse, ClickHouseSettings, QueryParams, QueryResult } from '@sluice/event-store/clickhouse/client'
import { type Block, lineJson, prettyJson } from './golden.ts'

/** A statement as it is sent to ClickHouse. */
export interface SentStatement {
  sql: string
  params: QueryParams
  settings: ClickHouseSettings | undefined
}

export interface Reply {
  rows?: readonly unknown[]
  totals?: unknown
}

/** Returns the reply to a statement, or throws an error of ClickHouse; `index` counts the statements from 0. */
export type Replies = (statement: SentStatement, index: number) => Reply

export interface RecordingClickHouse extends Pick<ClickHouse, 'query'> {
  /** The statements so far, in order. */
  readonly sent: readonly SentStatement[]
}

/** Records every statement and replies from `replies`, by default without rows. */
export function recordingClickHouse(replies: Replies = () => ({})): RecordingClickHouse {
  const sent: SentStatement[] = []
  return {
    sent,
    query: <Row>(
      sql: string,
      params: QueryParams = {},
      { settings }: { settings?: ClickHouseSettings } = {},
    ): Promise<QueryResult<Row>> => {
      const statement = { sql, params, settings }
      sent.push(statement)
      return new Promise((resolve) => {
        const { rows = [], totals } = replies(statement, sent.length - 1)
        resolve({ rows: rows as Row[], totals: totals as Row | undefined })
      })
    },
  }
}

/**
 * A block for each statement. The first block has all settings, the others only settings that differ from the first.
 */
export function statementBlocks(runs: readonly { heading: string; sent: readonly SentStatement[] }[]): Block[] {
  let first: Readonly<Record<string, unknown>> | undefined
  return runs.flatMap(({ heading, sent }) =>
    sent.map(({ sql, params, settings = {} }, index) => {
      const shown = first === undefined ? prettyJson(settings) : differenceOf(settings, first)
      first ??= settings
      return {
        heading: sent.length === 1 ? heading : `${heading} (statement ${index + 1} of ${sent.length})`,
        text: `${sql}\n\nparameters: ${prettyJson(params)}\nsettings: ${shown}`,
      }
    }),
  )
}

function differenceOf(settings: Readonly<Record<string, unknown>>, first: Readonly<Record<string, unknown>>): string {
  const names = [...new Set([...Object.keys(first), ...Object.keys(settings)])]
  const different = names.filter((name) => settings[name] !== first[name])
  if (different.length === 0) return 'those of the first statement'
  const values = different.map((name) => [name, settings[name] ?? null])
  return `those of the first statement, but ${lineJson(Object.fromEntries(values))}`
}
