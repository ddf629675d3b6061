import joi from 'joi'
import { cohortLimits } from '@sluice/contracts/cohorts'
import {
  compressions,
  type CreateExportBody,
  exportFormats,
  exportLimits,
  type ExportResource,
  type ExportRun,
  exportStatuses,
  exportTypes,
  frequencies,
  type ListExportsQuery,
  type Scheduled,
  type UpdateExportBody,
} from '@sluice/contracts/exports'
import { environments } from '@sluice/contracts/scopes'
import { latestMs, metrics } from '@sluice/contracts/stats'
import { enumText, nameText, nestedObject, text, time } from '@sluice/runtime/schemas'
import { filterOrNull, filterSchema } from './conditions.ts'
import { listOf, pageParameters } from './paging.ts'
import { parameterMessages } from './parameters.ts'
import { repeatedSiteId, siteId } from './sites.ts'
import { groupBy } from './stats.ts'
import { timeOrNull } from './times.ts'

/**
 * An optional field of a creation, where `null` means absent. Resources return `null` for fields that were not given,
 * so a client can send a resource back unchanged.
 */
const orNull = <T extends joi.Schema>(schema: T): T => schema.empty(null) as T

const date = time.max(latestMs)

const name = nameText(exportLimits.nameLengthMax)
  .example('All events')
  .description('Name of the export and its file; default: the type.')

const schedule = {
  frequency: enumText(frequencies).example('monthly').description('How often it runs.'),
  next_run: date
    .example(1_767_225_600_000)
    .description(
      'The first run, from which the others are counted in the site’s time zone; immediately if it is in the past.',
    ),
  paused: joi.boolean().description('`true`: no run until it is `false` again.'),
}

const csvSafe = joi
  .boolean()
  .description("`false`: CSV cells that a spreadsheet would run as formulas get no `'` before them.")

export const createExportBody = joi.object<CreateExportBody>({
  site_id: siteId.required(),
  type: enumText(exportTypes)
    .required()
    .example('events')
    .description(
      'What the rows are. Events, sessions and stats need the scope `stats:read`, users and cohort `cohorts:read`.',
    ),
  name,
  format: enumText(exportFormats)
    .required()
    .example('csv')
    .description('`json` is one array, `ndjson` an object a line.'),
  scheduled: orNull(
    nestedObject(
      joi.object<NonNullable<CreateExportBody['scheduled']>>({
        ...schedule,
        paused: orNull(schedule.paused),
        frequency: schedule.frequency.required(),
        next_run: orNull(schedule.next_run).description(
          'The first run, from which the others are counted in the site’s time zone; immediately if it is in the past or left out.',
        ),
      }),
    ),
  ).description('Makes a file again and again; without it, there is one file.'),
  start_date: orNull(date).description(
    'Only events from then on, Unix ms. Of a schedule of events: where its first run begins.',
  ),
  end_date: orNull(date).description('Only events before then. Not with `scheduled`.'),
  environment: orNull(enumText([...environments, 'all'])).description('Environment to read; default: the key’s.'),
  filter: filterSchema.description(
    'Only events that meet all of these conditions; only users and sessions with such an event.',
  ),
  cohort_id: text(cohortLimits.idLengthMax).description(
    'The cohort of a `cohort` export. Of events, users and sessions: only those of its users. Not with `stats`.',
  ),
  metric: orNull(enumText(metrics)).description('What a `stats` export measures, and only that.'),
  group_by: groupBy.empty(joi.valid('', null)).description('How a `stats` export is broken down, as for statistics.'),
  compression: orNull(enumText(compressions)).description(
    'Compression of the file; not with `parquet`, which compresses by itself.',
  ),
  csv_safe: orNull(csvSafe),
})

export const updateExportBody = joi.object<UpdateExportBody>({
  site_id: repeatedSiteId,
  // An export always has a name: `null` and `""` are invalid here instead of absent.
  name: name.empty().description('Name of the export and its file.'),
  scheduled: nestedObject(joi.object<Partial<Scheduled>>(schedule)).description(
    'Only of an export that was made with one. Fields left out keep their value.',
  ),
})

export const listExportsQuery = joi
  .object<ListExportsQuery>({ site_id: siteId.required(), ...pageParameters })
  .prefs({ convert: true })
  .messages(parameterMessages)

const count = joi.number().integer().required()
const status = enumText(exportStatuses).required()

export const exportResource = joi
  .object<ExportResource>({
    export_id: joi.string().required(),
    site_id: joi.string().required(),
    name: joi.string().required(),
    type: enumText(exportTypes).required(),
    format: enumText(exportFormats).required(),
    compression: enumText(compressions).allow(null).required(),
    environment: enumText([...environments, 'all']).required(),
    start_date: timeOrNull,
    end_date: timeOrNull,
    filter: filterOrNull.required(),
    cohort_id: joi.string().allow(null).required(),
    metric: enumText(metrics).allow(null).required(),
    group_by: joi.string().allow(null).required(),
    csv_safe: joi.boolean().required(),
    status: status.description(
      'Of a schedule: that of its latest run, as the fields below; `queued` before the first.',
    ),
    rows: count.description('Rows that the file holds so far.'),
    bytes: count.description('Size of the file in bytes; 0 before it is complete.'),
    progress: joi.number().min(0).max(100).required().description('Percent, an estimate.'),
    scheduled: joi
      .object<Scheduled>({
        frequency: enumText(frequencies).required(),
        next_run: count,
        paused: joi.boolean().required(),
      })
      .allow(null)
      .required(),
    created_at: count,
    finished_at: timeOrNull,
    expires_at: timeOrNull.description('When the file is removed.'),
    error: joi.string().allow(null).required().description('Why the export failed.'),
  })
  .id('Export')

const exportRun = joi.object<ExportRun>({
  export_id: joi.string().required().description('The run is an export of its own.'),
  status,
  start_date: timeOrNull.description(
    'Start of the run’s range: by time of receipt for events, by timestamp for stats. Null: a snapshot at `end_date`.',
  ),
  end_date: count,
  rows: count,
  bytes: count,
})

/** `data` of the list. */
export const exportsResult = listOf('exports', exportResource)

/** `data` of the list of a schedule's runs. */
export const exportRunsResult = listOf('runs', exportRun)
