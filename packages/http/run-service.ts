import type { Access } from '@sluice/access/access'
import { type Config, ConfigError, type Environment, loadConfig, type Variables } from '@sluice/runtime/config'
import { allowSlowConnections } from '@sluice/runtime/connection-attempts'
import { AppError, internalMessage } from '@sluice/runtime/errors'
import { createLogger, type Logger, type LogLevel } from '@sluice/runtime/logger'
import { Counter, createMetrics, Gauge, type Metrics } from '@sluice/runtime/metrics'
import { describeMisspeltName, misspeltNames } from '@sluice/runtime/misspelt-variables'
import { readArguments } from '@sluice/runtime/read-arguments'
import {
  describeFormerName,
  formerNamesInUse,
  type RenamedVariables,
  renamedVariables,
} from '@sluice/runtime/renamed-variables'
import { startTracing, type TracingConfig } from '@sluice/runtime/start-tracing'
import { type Component, FatalError, supervise } from '@sluice/runtime/supervisor'
import { type SynchronizedClock, synchronizedClock } from '@sluice/runtime/synchronized-clock'
import { portMistakes } from '@sluice/runtime/variables'
import manifest from './package.json' with { type: 'json' }
import type { HttpServer } from './server.ts'
import { type ListenConfig, serve, type Service } from './service.ts'
import { stopTimes } from './stop-times.ts'
import { openTlsCertificate } from './tls.ts'

/** Dependencies that every build receives besides its configuration. */
export interface Context {
  logger: Logger
  metrics: Metrics
  /** The build adds `clockPoller`, the component that compares the clock with Postgres. */
  clock: SynchronizedClock
}

/** What a build returns: a service that has not been started, with the engines that it opened. */
export interface Built {
  service: Service
  access: Access
  /** Clients of engines. They are opened before everything else and closed after it. */
  engines: readonly Component[]
  /** Called once everything has started. */
  onReady?: (server: HttpServer) => void | Promise<void>
}

/** How long before the end of its time a process that has not stopped ends itself. */
const stopMarginMs = 500
/** Two signals within this time count as one: npm and the process group both deliver the same signal. */
const sameSignalMs = 1_000

/**
 * A service as a process: configuration, logger, metrics, components, HTTP, signals. Never resolves: ends the
 * process when the service has stopped, with the exit code 0 after a signal or `--help`, 1 after a failure, and 130
 * after a second SIGINT. Mistakes of the configuration go to standard error in full. Other arguments than `--help` are
 * refused.
 */
export async function runService<V extends Variables>({
  name,
  variables,
  environment,
  renamed = renamedVariables,
  build,
}: {
  name: string
  variables: V
  environment: Environment
  renamed?: RenamedVariables
  build: (
    config: Config<V> & ListenConfig & TracingConfig & { SLUICE_LOG_LEVEL: LogLevel },
    context: Context,
  ) => Promise<Built>
}): Promise<never> {
  refuseArguments(name)
  allowSlowConnections()
  const config = configOrExit(() => {
    const values = loadConfig(variables, environment, renamed) as Parameters<typeof build>[0]
    const mistakes = [
      ...portMistakes(values),
      ...mistakesOf(() => stopTimes(values)),
      // A certificate that can't be used is found before anything is opened. Its warnings are logged later, when the
      // server opens it.
      ...mistakesOf(() => openTlsCertificate(values, { info: () => undefined, warn: () => undefined })),
    ]
    if (mistakes.length > 0) throw new ConfigError(mistakes)
    return values
  })
  const tracing = await startTracing(config, { service: name, version: manifest.version })
  const metrics = createMetrics()
  const dropped = new Counter({
    name: 'sluice_log_lines_dropped_total',
    help: 'Log lines that were dropped because standard output took them too slowly, or not at all.',
    registers: [metrics],
  })
  const onDropped = () => dropped.inc()
  const logger = createLogger({ service: name, level: config.SLUICE_LOG_LEVEL, onDropped })
  tracing?.logTo(logger)
  const deprecated = new Gauge({
    name: 'sluice_deprecated_config',
    help: '1 for each variable that is set under its former name, which a later release no longer reads.',
    labelNames: ['name'],
    registers: [metrics],
  })
  for (const renaming of formerNamesInUse(variables, environment, renamed)) {
    deprecated.set({ name: renaming.former }, 1)
    logger.warn(renaming, describeFormerName(renaming))
  }
  for (const misspelling of misspeltNames(variables, environment, renamed)) {
    logger.warn(misspelling, describeMisspeltName(misspelling))
  }
  const clock = synchronizedClock()
  const stopSignal = onStopSignal()
  const endInTime = (): void => {
    setTimeout(
      () => {
        logger.fatal('stop timed out, exiting')
        logger.flush()
        process.exit(1)
      },
      stopTimes(config).totalMs - stopMarginMs,
    ).unref()
  }
  // The limit holds during the build and the start, too: they may wait for an engine.
  void stopSignal.then(endInTime)
  try {
    const { service, access, engines, onReady } = await build(config, { logger, metrics, clock })
    const { server, components } = serve(service, access, {
      config,
      logger,
      metrics,
      clock,
      failures: () => supervisor.failures(),
    })
    const supervisor = supervise([...(tracing ? [tracing.component] : []), ...engines, ...components], logger)
    const isStarted = await Promise.race([supervisor.start().then(() => true), stopSignal.then(() => false)])
    if (isStarted) {
      logger.info({ host: config.SLUICE_HOST, port: server.port() }, 'started')
      await onReady?.(server)
    }
    const fatal = await Promise.race([stopSignal, supervisor.fatal])
    if (fatal) endInTime()
    await supervisor.stop()
    if (fatal) throw fatal
    logger.info('stopped')
    logger.flush()
    process.exit(0)
  } catch (error) {
    // At a terminal, a sentence that says what to do would stand below a line of JSON with the same sentence.
    const isShownAtTerminal = process.stdout.isTTY && (error instanceof AppError || error instanceof FatalError)
    if (!isShownAtTerminal) logger.fatal({ err: error }, 'failed')
    logger.flush()
    process.stderr.write(`${name}: ${internalMessage(error)}\n`)
    process.exit(1)
  }
}

/** Ends the process when it has an argument, which would be without effect: `--help` prints how to set the service up. */
function refuseArguments(name: string): void {
  const example = `SLUICE_PORT=9000 npm ${name === 'sluice' ? 'start' : `run ${name}`}`
  const usage = `Sluice is set up by environment variables, for example ${example}; docs/configuration.md lists them.`
  try {
    readArguments(usage, {}, () => undefined)
  } catch (error) {
    process.stderr.write(`${internalMessage(error)}\n`)
    process.exit(1)
  }
}

/** The mistakes of the ConfigError that a check throws. */
function mistakesOf(check: () => unknown): readonly string[] {
  try {
    check()
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
}

function configOrExit<C>(load: () => C): C {
  try {
    return load()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(1)
  }
}

/** Resolves at the first SIGTERM or SIGINT; a second SIGINT more than `sameSignalMs` later exits at once. */
function onStopSignal(): Promise<undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  let firstSignalAt: number | undefined
  const handleSignal = (signal: NodeJS.Signals): void => {
    if (firstSignalAt === undefined) {
      firstSignalAt = Date.now()
      resolve(undefined)
    } else if (signal === 'SIGINT' && Date.now() - firstSignalAt > sameSignalMs) {
      process.exit(130)
    }
  }
  process.on('SIGTERM', handleSignal)
  process.on('SIGINT', handleSignal)
  return promise
}
