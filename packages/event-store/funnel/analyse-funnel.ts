import { sum } from '@sluice/runtime/sum'
import type { QueryRunner } from '../clickhouse/query-runner.ts'
import { percent } from '../percent.ts'
import { type FunnelSpec, funnelStatement, type LevelRow } from './funnel-statement.ts'

/** The users of one step; rates are percent with 2 decimals. */
export interface FunnelStepNumbers {
  /** Users that came to this step or beyond. */
  users: number
  rateFromFirst: number
  /** 100 for the first step, unless it has no users. */
  rateFromPrevious: number
}

/** Counts the users of each step (docs/http-interface.md#funnel), in the order of the steps. */
export async function analyseFunnel(spec: FunnelSpec, runner: QueryRunner): Promise<FunnelStepNumbers[]> {
  const { rows } = await runner.query<LevelRow>(funnelStatement(spec))
  const usersByStep = spec.steps.map((_, index) =>
    sum(rows.filter(({ level }) => level > index).map(({ users }) => users)),
  )
  return usersByStep.map((users, index) => ({
    users,
    rateFromFirst: percent(users, usersByStep[0]),
    rateFromPrevious: percent(users, usersByStep[Math.max(index - 1, 0)]),
  }))
}
