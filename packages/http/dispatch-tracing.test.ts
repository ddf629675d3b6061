import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { unavailable } from '@sluice/runtime/errors'
import { startTracing, type Tracing } from '@sluice/runtime/start-tracing'
import { startTraceCollector, type TraceCollector } from '../../tests/support/trace-collector.ts'
import { useTestRoutes } from '../../tests/support/use-test-routes.ts'

let collector: TraceCollector
let tracing: Tracing | undefined

// Tracing starts before the service, which decides at its start whether it traces.
beforeAll(async () => {
  collector = await startTraceCollector()
  tracing = await startTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }, { service: 'test', version: '1.0.0' })
})

const testRoutes = useTestRoutes()

afterAll(() => collector.close())

/** GET /things/a from a client that disconnects before the handler ends. */
async function leave(traceparent: string): Promise<void> {
  const { handle } = testRoutes
  const entered = Promise.withResolvers<undefined>()
  const left = Promise.withResolvers<undefined>()
  testRoutes.handle = async (request) => {
    entered.resolve(undefined)
    await new Promise((resolve) => request.signal.addEventListener('abort', resolve))
    left.resolve(undefined)
    return handle(request)
  }
  const abort = new AbortController()
  const headers = { Authorization: `Bearer ${testRoutes.keys.key}`, traceparent }
  const answer = fetch(`${testRoutes.service.url}/things/a`, { headers, signal: abort.signal })
  await entered.promise
  abort.abort()
  await expect(answer).rejects.toThrow()
  await left.promise
  testRoutes.handle = handle
}

test('the span of a request has the status of its log line, and is an error for 5xx only', async () => {
  const fail = () => Promise.reject(unavailable('ClickHouse is away'))
  const answer = testRoutes.handle
  const traceIds = ['a', 'b', 'c', 'd'].map((digit) => digit.repeat(32))
  const [answered, failed, leftEarly, leftAndFailed] = traceIds.map((id) => `00-${id}-${'1'.repeat(16)}-01`)
  await testRoutes.sendRequest('/things/a', { headers: { traceparent: answered ?? '' } })
  await leave(leftEarly ?? '')
  testRoutes.handle = fail
  await leave(leftAndFailed ?? '')
  await testRoutes.sendRequest('/things/a', { headers: { traceparent: failed ?? '' } })
  testRoutes.handle = answer
  await tracing?.component.stop?.()

  const spans = traceIds.map((id) => collector.spans.find(({ traceId }) => traceId === id))
  expect(spans.map((span) => [span?.attributes['http.response.status_code'], span?.failure])).toStrictEqual([
    [200, undefined],
    [503, 'answered 503'],
    [499, undefined],
    [499, undefined],
  ])
  const lines = testRoutes.service.lines().filter(({ msg }) => msg === 'request')
  expect(lines.map(({ trace_id: id, status }) => [id, status]).sort()).toStrictEqual(
    traceIds.map((id, index) => [id, spans[index]?.attributes['http.response.status_code']]),
  )
})
