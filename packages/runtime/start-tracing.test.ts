import { execFileSync } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import { ConfigError, loadConfig } from './config.ts'
import { activeTraceId, isTracing, sampledSpan, traced, tracedCall } from './tracing.ts'
import { tracingVariables } from './tracing-variables.ts'

/** The packages of OpenTelemetry that a process has loaded after it started tracing with `config`. */
function loadedPackages(config: object): string[] {
  const file = JSON.stringify(new URL('start-tracing.ts', import.meta.url).href)
  const code = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({ load: (url, context, next) => { loaded.add(url); return next(url, context) } })
    const { startTracing } = await import(${file})
    await startTracing(${JSON.stringify(config)}, { service: 'test', version: '1.0.0' })
    const names = [...loaded].flatMap((url) => /.*(@opentelemetry\\/[^/]+)/.exec(url)?.[1] ?? [])
    process.stdout.write(JSON.stringify([...new Set(names)]))
    process.exit()
  `
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', code]
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as string[]
}

describe('without an endpoint', () => {
  test('only the API is loaded', () => {
    expect(loadedPackages({})).toEqual(['@opentelemetry/api'])
    expect(loadedPackages({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' })).toContain('@opentelemetry/sdk-trace')
  })

  test('work runs without a span', async () => {
    expect(isTracing()).toBe(false)
    const seen = await traced('work', { kind: 'server' }, (span) => [span, sampledSpan(), activeTraceId()])
    expect(seen).toEqual([undefined, undefined, undefined])
    expect(await tracedCall('call', {}, () => Promise.resolve(7))).toBe(7)
    await expect(traced('work', {}, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  })
})

describe('the configuration', () => {
  const mistakesOf = (environment: Record<string, string>): readonly string[] => {
    try {
      loadConfig(tracingVariables, environment)
      return []
    } catch (error) {
      if (error instanceof ConfigError) return error.mistakes
      throw error
    }
  }

  test('needs nothing, and records every trace by default', () => {
    expect(loadConfig(tracingVariables, {})).toEqual({
      OTEL_TRACES_SAMPLER: 'parentbased_always_on',
      OTEL_TRACES_SAMPLER_ARG: 1,
    })
  })

  test.each([
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, /^OTEL_EXPORTER_OTLP_ENDPOINT must be a valid uri/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://me:secret@collector' }, /no password: set OTEL_EXPORTER_OTLP_HEADERS/],
    [{ OTEL_TRACES_SAMPLER: 'sometimes' }, /^OTEL_TRACES_SAMPLER must be one of/],
    [{ OTEL_TRACES_SAMPLER_ARG: '2' }, /^OTEL_TRACES_SAMPLER_ARG must be less than or equal to 1/],
  ])('refuses %j', (environment, reason) => expect(mistakesOf(environment)).toEqual([expect.stringMatching(reason)]))
})
