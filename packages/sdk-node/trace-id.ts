/** The part of what `@opentelemetry/api` 1.x registers for all its copies in a process that is used. */
interface OpenTelemetry {
  context?: { active(): { getValue(key: symbol): unknown } }
}

interface Span {
  spanContext(): { traceId: string }
}

const api = Symbol.for('opentelemetry.js.api.1')
const spanKey = Symbol.for('OpenTelemetry Context Key SPAN')

/**
 * Returns the trace id of the active span; undefined without one. The API is not imported: it belongs to the
 * application, may be absent, and a bundle of the application may contain it.
 */
export function activeTraceId(): string | undefined {
  const span = (globalThis as { [api]?: OpenTelemetry })[api]?.context?.active().getValue(spanKey) as Span | undefined
  // OpenTelemetry's invalid id has only zeros.
  // eslint-disable-next-line @typescript-eslint/prefer-nullish-coalescing -- the empty text is no id
  return span?.spanContext().traceId.replace(/^0+$/, '') || undefined
}
