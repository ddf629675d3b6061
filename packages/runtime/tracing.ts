// Spans of OpenTelemetry. While tracing is off, which is the default, every function here only makes one comparison,
// and no context is kept. This file loads only the API, which prom-client loads as well; start-tracing.ts loads the
// SDK.
import {
  type Attributes,
  context,
  isSpanContextValid,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from '@opentelemetry/api'
import { failureKind } from './errors.ts'

export interface SpanOptions {
  /** `internal` by default. */
  kind?: 'server' | 'client' | 'producer' | 'consumer' | 'internal'
  attributes?: Attributes
  /**
   * The spans that caused this one: the first is its parent, the others are its links. If the list is empty, the span
   * begins a trace. Without a list, the parent is the active span.
   */
  parentAndLinks?: readonly SpanContext[]
}

/** Maximum number of links of a span: SDKs allow 128 links by default. */
export const linksMax = 128
let tracer: Tracer | undefined

export type { SpanContext }

/** Turns tracing on until the process ends. The SDK must be registered with the API before. */
export function setTracer(started: Tracer): void {
  tracer = started
}

/** Whether tracing is on, for callers that prepare a span at some cost. */
export function isTracing(): boolean {
  return tracer !== undefined
}

/**
 * Runs `work` in a new span, which is active during `work`. If `work` rejects, the span's status is an error with its
 * `failureKind`: collectors get no values of users. While tracing is off, `work` runs without a span.
 */
export async function traced<T>(
  name: string,
  { kind = 'internal', attributes = {}, parentAndLinks }: SpanOptions,
  work: (span: Span | undefined) => T | Promise<T>,
): Promise<T> {
  if (tracer === undefined) return work(undefined)
  const [parent, ...others] = parentAndLinks ?? []
  const around =
    parentAndLinks === undefined ? context.active() : parent ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT
  const links: Link[] = others.slice(0, linksMax).map((each) => ({ context: each }))
  const span = tracer.startSpan(name, { kind: kinds[kind], attributes, links }, around)
  try {
    return await context.with(trace.setSpan(around, span), () => work(span))
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: failureKind(error) })
    throw error
  } finally {
    span.end()
  }
}

const kinds = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const

/** Like `traced`, for a call to an engine. Without an active span, e.g. in a poll, the call gets no span. */
export function tracedCall<T>(name: string, attributes: Attributes, work: () => Promise<T>): Promise<T> {
  if (tracer === undefined || trace.getActiveSpan() === undefined) return work()
  return traced(name, { kind: 'client', attributes }, work)
}

/** Adds attributes to the active span, and sets its status to an error if there is a `failure`, a text without values. */
export function describeSpan(attributes: Attributes, failure?: string): void {
  if (tracer === undefined) return
  const span = trace.getActiveSpan()
  span?.setAttributes(attributes)
  if (failure !== undefined) span?.setStatus({ code: SpanStatusCode.ERROR, message: failure })
}

/** The active span if it is sampled. */
export function sampledSpan(): SpanContext | undefined {
  if (tracer === undefined) return undefined
  const active = trace.getActiveSpan()?.spanContext()
  return active !== undefined && (active.traceFlags & TraceFlags.SAMPLED) !== 0 ? active : undefined
}

/** The id of the active trace, for logs. */
export function activeTraceId(): string | undefined {
  if (tracer === undefined) return undefined
  return trace.getActiveSpan()?.spanContext().traceId
}

/** The active span as the value of a W3C `traceparent`; undefined unless it is sampled. */
export function activeTraceparent(): string | undefined {
  if (sampledSpan() === undefined) return undefined
  const carrier: { traceparent?: string } = {}
  propagation.inject(context.active(), carrier)
  return carrier.traceparent
}

/** The span in W3C trace headers, as a list for `parentAndLinks`; empty if there is none or the headers are invalid. */
export function spanContextsOf(headers: Readonly<Record<string, unknown>>): SpanContext[] {
  if (tracer === undefined) return []
  const found = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, headers))
  return found !== undefined && isSpanContextValid(found) ? [found] : []
}
