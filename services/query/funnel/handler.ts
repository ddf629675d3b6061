import { conditionError } from '@sluice/clickhouse/conditions'
import { funnelBody, funnelLimits, type FunnelStep } from '@sluice/contracts/funnel'
import { validate } from '@sluice/contracts/validate'
import { parseJson } from '@sluice/http/json-body'
import type { Answer, ApiRequest } from '@sluice/http/route'
import { type Ask, asker, type Questions } from '../ask.ts'
import { percent } from '../percent.ts'
import { type ReadableSites, readableSite } from '../readable-site.ts'
import { rangeOf } from '../stats/parameters.ts'
import { type FunnelQuestion, funnelStatement, type LevelRow } from './sql.ts'

export interface FunnelDeps {
  clickHouse: Questions
  sites: ReadableSites
  /** Until when (Unix ms) everything accepted can be read. */
  completeUntil: () => number
}

/** `data` of an answer; times are Unix ms, rates percent with 2 decimals. */
export interface FunnelResult {
  site_id: string
  start_date: number
  end_date: number
  steps: { event_type: string; users: number; rate_from_first: number; rate_from_previous: number }[]
  complete_until: number
}

/** `POST /api/v1/funnel` (contract section 4). Throws 400, 404 `Site not found`, ClickHouseError. */
export function funnelHandler({ clickHouse, sites, completeUntil }: FunnelDeps) {
  return async ({ body, credential, receivedAt, signal, log }: ApiRequest): Promise<Answer> => {
    const asked = validate(funnelBody, parseJson(body.bytes))
    const {
      site_id: siteId,
      steps,
      window: windowMs = funnelLimits.windowDefaultMs,
      environment = credential.environment,
    } = asked
    const range = rangeOf(asked, receivedAt)
    log({ site_id: siteId, steps: steps.length })
    await readableSite(sites, credential, siteId)

    const completeUntilMs = completeUntil()
    const users = await usersOf(
      { siteId, environment, ...range, steps, windowMs },
      asker(clickHouse, { credential, signal }),
    )
    const data: FunnelResult = {
      site_id: siteId,
      start_date: range.start,
      end_date: range.end,
      steps: steps.map(({ event_type }, index) => ({
        event_type,
        users: users[index] ?? 0,
        rate_from_first: percent(users[index], users[0]),
        rate_from_previous: percent(users[index], users[Math.max(index - 1, 0)]),
      })),
      complete_until: completeUntilMs,
    }
    return { status: 200, data }
  }
}

/** How many users came to each step, or beyond. */
async function usersOf(question: FunnelQuestion, ask: Ask): Promise<number[]> {
  try {
    const { rows } = await ask<LevelRow>(funnelStatement(question))
    return question.steps.map((_, index) =>
      rows.filter(({ level }) => level > index).reduce((sum, { users }) => sum + users, 0),
    )
  } catch (error) {
    throw question.steps.reduce<unknown>(
      (known, { conditions = [] }: FunnelStep, index) => conditionError(known, conditions, `steps.${index}.conditions`),
      error,
    )
  }
}
