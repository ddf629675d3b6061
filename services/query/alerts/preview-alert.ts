import { type ReadableSites, requireReadableSite } from '@sluice/access/require-readable-site'
import { operations } from '@sluice/api/operations'
import { previewOf } from '@sluice/contracts/alert-preview'
import { alertDefaults, alertLimits } from '@sluice/contracts/alerts'
import { dayMs, minuteMs } from '@sluice/contracts/time-units'
import { measureAlertSeries } from '@sluice/event-store/alerts/alert-series'
import { alertSpecOf, readsBeforeMs } from '@sluice/event-store/alerts/alert-spec'
import { measureOptionsOf } from '@sluice/event-store/alerts/measure-alert'
import type { Route } from '@sluice/http/route'
import { triggerOf } from '@sluice/postgres/alert-evaluations'
import type { ReadCompleteUntil } from '../complete-until.ts'
import { type AnalysisReader, type FieldText, handleAnalysis, runAnalysis } from '../run-analysis.ts'
import { requireValidCondition } from './require-valid-fields.ts'

const previewMs = alertLimits.previewDays * dayMs

const tooLarge: FieldText = {
  field: 'condition.window',
  reason: 'asks for more than one preview may read: choose a shorter window, or a filter with fewer events',
}

/**
 * POST /api/v1/alerts/preview: what a rule would have done in the last 30 days (docs/http-interface.md#alert-preview).
 * Throws 400 for fields that don't go together and for a preview that reads too much.
 */
export function previewAlertRoute({
  eventReader,
  sites,
  readCompleteUntil,
}: {
  eventReader: AnalysisReader
  sites: ReadableSites
  readCompleteUntil: ReadCompleteUntil
}): Route {
  return handleAnalysis(operations.previewAlert, eventReader, async ({ body, credential, receivedAt, log }, signal) => {
    const { site_id: siteId, condition, environment = credential.environment } = body
    log({ site_id: siteId, metric: condition.metric })
    requireValidCondition(condition)
    const site = await requireReadableSite(sites, { credential, signal }, siteId)

    const trigger = triggerOf({ ...alertDefaults, ...body })
    const spec = alertSpecOf(condition, { siteId, environment }, site.settings.conversion_event)
    const completeUntilMs = readCompleteUntil(receivedAt - previewMs - readsBeforeMs(spec))
    // Like the workers, the preview evaluates no minute before its end is complete. 0 means that no writer has reported
    // yet.
    const until = completeUntilMs === 0 ? receivedAt : Math.min(receivedAt, completeUntilMs)
    const end = Math.floor(until / minuteMs) * minuteMs
    const series = await runAnalysis(
      eventReader,
      { credential, signal },
      (runner) => measureAlertSeries(spec, { start: end - previewMs, end }, measureOptionsOf(trigger), runner),
      {
        kind: 'alert_preview',
        tooLarge: { resources: tooLarge, rows: tooLarge },
        conditions: { 'condition.filter': condition.filter ?? [] },
      },
    )
    return { ...previewOf(trigger, series), complete_until: completeUntilMs }
  })
}
