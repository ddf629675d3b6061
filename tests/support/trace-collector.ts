import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** The part of an exported span that the tests use. */
export interface CollectedSpan {
  service: string
  name: string
  traceId: string
  spanId: string
  /** Empty for the root span of a trace. */
  parentSpanId: string
  /** Trace ids of the linked spans. */
  linkedTraces: string[]
  attributes: Record<string, unknown>
  /** The message of the span's status; undefined without one. */
  failure: string | undefined
}

export interface TraceCollector {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  url: string
  spans: CollectedSpan[]
  /** All received requests, as text. */
  received(): string
  close(): Promise<void>
}

/** The part of an ExportTraceServiceRequest in JSON that is read. */
interface ExportRequest {
  resourceSpans: {
    resource: { attributes: Attribute[] }
    scopeSpans: {
      spans: {
        name: string
        traceId: string
        spanId: string
        parentSpanId?: string
        links?: { traceId: string }[]
        attributes: Attribute[]
        status?: { message?: string }
      }[]
    }[]
  }[]
}

interface Attribute {
  key: string
  value: Record<string, unknown>
}

/** An OpenTelemetry collector (OTLP over HTTP) that keeps all spans. */
export async function startTraceCollector(): Promise<TraceCollector> {
  const spans: CollectedSpan[] = []
  const texts: string[] = []
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      texts.push(JSON.stringify(body))
      if (request.url === '/v1/traces') spans.push(...spansOf(body as ExportRequest))
      response.setHeader('Content-Type', 'application/json').end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    received: () => texts.join('\n'),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function spansOf({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)['service.name'])
    return scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId = '', links = [], attributes, status }) => ({
        service,
        name,
        traceId,
        spanId,
        parentSpanId,
        linkedTraces: links.map((link) => link.traceId),
        attributes: valuesOf(attributes),
        failure: status?.message,
      })),
    )
  })
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
