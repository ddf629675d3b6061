import { eventLimits } from '@sluice/contracts/event-limits'
import { sum } from '@sluice/runtime/sum'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { percent } from '../percent.ts'
import { lastWeeks } from './projected-weeks.ts'
import { retentionStatement, type RetentionStatementSpec, type WeekRow } from './retention-statement.ts'

/** A retention analysis: the new users of each week, and those that return. */
export interface RetentionSpec extends Omit<RetentionStatementSpec, 'starts' | 'latest'> {
  /** Number of calendar weeks; the last one contains `now`. At most 53, because weeks are the bits of a number. */
  weeks: number
  /** IANA name of the time zone that determines when weeks begin. */
  timeZone: string
  /** The present time, Unix ms. The timestamp of a stored event is at most 24 hours later. */
  receivedAt: number
}

/** The users that returned in one week; the rate is percent with 2 decimals. */
export interface RetentionNumbers {
  /** 0 is the week of the first event. */
  week: number
  retentionRate: number
  /** Users that are counted. */
  size: number
  returningUsers: number
}

export interface RetentionWeekNumbers extends RetentionNumbers {
  /** Whether the week is over. */
  isComplete: boolean
}

/** The users whose first event is in one calendar week. */
export interface NewUsersNumbers {
  /** Start of the calendar week, Unix ms. */
  weekStart: number
  size: number
  weeks: RetentionWeekNumbers[]
}

/** The new users of each calendar week, how many of them returned in each week since, and the average of all. */
export interface RetentionMatrixNumbers {
  /** One for each calendar week, ascending. */
  newUsers: NewUsersNumbers[]
  /** Over the users for whom the week is over. Calendar weeks with more new users therefore have more weight. */
  average: RetentionNumbers[]
}

/** Counts the new users of each week, and how many of them return (docs/http-interface.md#retention). */
export async function analyseRetention(spec: RetentionSpec, runner: QueryRunner): Promise<RetentionMatrixNumbers> {
  const { weeks, timeZone, receivedAt, ...scope } = spec
  const starts = lastWeeks(spec.now, weeks, timeZone)
  const { rows } = await runner.query<WeekRow>(
    retentionStatement({
      ...scope,
      starts,
      // A further day allows for differences between clocks.
      latest: receivedAt + 2 * eventLimits.futureMsMax,
    }),
  )
  const newUsers = newUsersOf(rows, starts, receivedAt)
  return { newUsers, average: averageOf(newUsers) }
}

/**
 * Each calendar week has numbers for itself and for all later weeks. The last of these weeks is not over; where the
 * evaluation is of a time after `receivedAt`, the earlier ones that end after `receivedAt` aren't either.
 */
function newUsersOf(rows: readonly WeekRow[], starts: readonly number[], receivedAt: number): NewUsersNumbers[] {
  return starts.map((weekStart, index) => {
    const { users: size = 0, returned = [] } = rows.find(({ begun }) => begun === index) ?? {}
    const weeks = starts.slice(index).map((_, week) => ({
      ...numbersOf(week, size, returned[index + week] ?? 0),
      isComplete: (starts[index + week + 1] ?? Infinity) <= receivedAt,
    }))
    return { weekStart, size, weeks }
  })
}

function averageOf(newUsers: readonly NewUsersNumbers[]): RetentionNumbers[] {
  return newUsers.slice(1).map((_, week) => {
    const complete = newUsers.flatMap(({ weeks }) => weeks.filter((each) => each.week === week && each.isComplete))
    return numbersOf(
      week,
      sum(complete.map(({ size }) => size)),
      sum(complete.map(({ returningUsers }) => returningUsers)),
    )
  })
}

function numbersOf(week: number, size: number, returningUsers: number): RetentionNumbers {
  return { week, retentionRate: percent(returningUsers, size), size, returningUsers }
}
