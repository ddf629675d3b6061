import type { Page, Request } from 'playwright-core'

/** A question of statistics that the page has asked. */
export interface Question {
  metric: string
  start_date: number
  end_date: number
  timezone?: string
  group_by?: string
  filter?: unknown
  [parameter: string]: unknown
}

export interface Questions {
  /** All questions since the start or the last `forget`, in order. */
  asked(): Question[]
  /** Requests that the page gave up before their answer. */
  aborted(): number
  forget(): void
}

/** Notes what a page asks by GET /stats and POST /stats/batch with dates. */
export function watchQuestions(page: Page): Questions {
  let asked: Question[] = []
  let aborted = 0
  page.on('request', (request) => asked.push(...questionsOf(request)))
  page.on('requestfailed', (request) => {
    if (questionsOf(request).length > 0 && request.failure()?.errorText === 'net::ERR_ABORTED') aborted++
  })
  return {
    asked: () => asked,
    aborted: () => aborted,
    forget: () => {
      asked = []
      aborted = 0
    },
  }
}

function questionsOf(request: Request): Question[] {
  const { pathname, searchParams } = new URL(request.url())
  if (pathname === '/api/v1/stats/batch') return (request.postDataJSON() as { queries: Question[] }).queries
  if (pathname !== '/api/v1/stats') return []
  const parameters = Object.fromEntries(searchParams)
  const { metric = '', start_date, end_date } = parameters
  // The question of the freshness names a period.
  if (start_date === undefined) return []
  return [{ ...parameters, metric, start_date: Number(start_date), end_date: Number(end_date) }]
}
