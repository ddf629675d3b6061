import type { Command } from 'commander'
import { grants } from '@sluice/contracts/scopes'
import type { Context } from '../context.ts'
import { failed, type Finding, ok, skipped } from '../doctor/check.ts'
import { canaryType, checkCanary } from '../doctor/check-canary.ts'
import { checkConnection } from '../doctor/check-connection.ts'
import { checkSession, checkSite, readSession } from '../doctor/check-key.ts'
import { checkService } from '../doctor/check-service.ts'
import { examples } from '../examples.ts'
import { Failure, messageOf } from '../failure.ts'
import { clientFor, unencrypted, unencryptedSetting } from '../open-connection.ts'
import { countOf } from '../output/format.ts'
import { safeJson, safeText } from '../output/safe-text.ts'
import type { Terminal } from '../output/terminal.ts'
import {
  addConnectionOptions,
  addSiteOption,
  losesTls,
  readSettings,
  requireKey,
  type Settings,
  type SiteOptions,
} from '../settings.ts'

interface DoctorOptions extends SiteOptions {
  canary: boolean
  json?: boolean
}

const nameWidth = 17

/** Adds the command `sluice doctor`, which checks an installation and says what to do. */
export function addDoctor(program: Command, context: Context): void {
  const command = program
    .command('doctor')
    .summary('check the connection, the key and the path of an event')
    .description(
      'Checks the connection to Sluice step by step: name, connection, certificate, readiness, clock, key, scopes, site, limits. ' +
        `At the end it sends an event of the type ${canaryType} to the site, and looks for it with a query.`,
    )
  addSiteOption(command)
    .option('--no-canary', 'do not send the test event')
    .option('--json', 'print the findings as JSON')
  addConnectionOptions(command)
    .addHelpText(
      'after',
      examples([
        ['sluice doctor --site shop', 'check everything'],
        ['sluice doctor --no-canary', 'change nothing'],
      ]),
    )
    .action((options: DoctorOptions) => doctor(context, options))
}

async function doctor(context: Context, options: DoctorOptions): Promise<void> {
  const { terminal } = context
  const settings = await readSettings(context, options)
  const findings: Finding[] = []
  for await (const finding of examine(context, settings, options)) {
    findings.push(finding)
    if (!options.json) printFinding(finding, terminal)
    context.signal.throwIfAborted()
  }
  const count = (state: Finding['state']): number => findings.filter((each) => each.state === state).length
  if (options.json) terminal.print(safeJson({ url: settings.url, findings }, 2))
  const failures = count('failure')
  if (failures > 0) throw new Failure(`${countOf(failures, 'check')} failed: what to do is written above.`)
  const warnings = count('warning')
  const rest = count('skipped') > 0 ? ' The lines with - were not checked.' : ''
  terminal.note(
    `${warnings > 0 ? `Everything works, with ${countOf(warnings, 'warning')}.` : 'Everything works.'}${rest}`,
  )
}

/** The findings in their order. What can't be checked after a failure is left out. */
async function* examine(context: Context, settings: Settings, options: DoctorOptions): AsyncGenerator<Finding> {
  yield ok('address', `${settings.url} (from ${settings.urlSource})`)
  if (yield* untilFailure(checkConnection(settings.url, 'SLUICE_URL'))) return
  // The checks after a wrong clock or an unavailable engine are still of use.
  let isSluice = false
  for await (const finding of checkService(settings.url, 'Sluice', 'SLUICE_URL')) {
    isSluice ||= finding.name === 'clock'
    yield finding
  }
  if (!isSluice) return
  if (settings.key === undefined) {
    yield failed('key', 'none is set', 'Set SLUICE_API_KEY, or run "sluice login".')
    return
  }
  try {
    requireKey(settings)
  } catch (error) {
    yield failed('key', "can't be sent", messageOf(error))
    return
  }
  const query = clientFor(context, settings, { url: settings.url, retries: 'none' })
  const read = await readSession(query)
  if (!('session' in read)) {
    yield read
    return
  }
  const { session, limits } = read
  yield* checkSession(session, settings.keySource)
  const site = await checkSite(query, session, settings.site)
  yield site
  yield limits
  const collectUrl = (settings.collectUrl ?? session.collect_url).replace(/\/+$/, '')
  if (losesTls(settings.url, collectUrl)) {
    const sentenceOf = settings.collectUrl === undefined ? unencrypted : unencryptedSetting
    yield failed('events go to', collectUrl, sentenceOf(settings.url, collectUrl))
    return
  }
  if (collectUrl !== settings.url && (yield* untilFailure(checkGateway(collectUrl)))) return
  const reason = canarySkipReason({ options, settings, session, site })
  if (reason !== undefined || settings.site === undefined) {
    yield skipped('event sent', reason ?? 'no site is named')
    return
  }
  const collect = clientFor(context, settings, { url: collectUrl, retries: 'none' })
  yield* checkCanary({ collect, query, session, siteId: settings.site, signal: context.signal })
}

/** The gateway at an address of its own. */
async function* checkGateway(url: string): AsyncGenerator<Finding> {
  yield ok('events go to', url)
  if (yield* untilFailure(checkConnection(url, 'SLUICE_COLLECT_URL'))) return
  for await (const finding of checkService(url, 'gateway', 'SLUICE_COLLECT_URL'))
    if (finding.name !== 'clock') yield finding
}

function canarySkipReason({
  options,
  settings,
  session,
  site,
}: {
  options: DoctorOptions
  settings: Settings
  session: Parameters<typeof checkSite>[1]
  site: Finding
}): string | undefined {
  if (!options.canary) return '--no-canary'
  if (settings.site === undefined) return 'no site is named'
  if (site.state === 'failure') return 'the key may not use the site'
  // The event would register a site whose id may be misspelt.
  if (site.state === 'warning') return 'there is no such site; "sluice send" sends its first event'
  // The sites that a key is bound to are registered with the key.
  if (site.state === 'skipped' && session.site_ids === null)
    return 'the key may not read sites; bind it to its site, and the event is sent'
  return grants(session.scopes, 'events:write') ? undefined : 'the key may not send'
}

/** Passes findings on; true when one was a failure. */
async function* untilFailure(findings: AsyncGenerator<Finding>): AsyncGenerator<Finding, boolean> {
  let hasFailed = false
  for await (const finding of findings) {
    hasFailed ||= finding.state === 'failure'
    yield finding
  }
  return hasFailed
}

function printFinding({ name, state, detail, advice }: Finding, terminal: Terminal): void {
  const [sign, style] = (
    { ok: ['✓', 'green'], warning: ['!', 'yellow'], failure: ['✗', 'red'], skipped: ['-', 'dim'] } as const
  )[state]
  terminal.print(`${terminal.style(style, sign)} ${name.padEnd(nameWidth)}${safeText(detail)}`)
  if (advice !== undefined) terminal.print(`  ${' '.repeat(nameWidth)}→ ${safeText(advice)}`)
}
