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
  .description('Name of the export and of its file; default: the type.')

const schedule = {
  frequency: enumText(frequencies).example('monthly').description('How often the export runs.'),
  next_run: date
    .example(1_767_225_600_000)
    .description(
      'Time of the next run, Unix ms. Later runs follow from it in the site’s time zone. A time in the past starts the run immediately.',
    ),
  paused: joi.boolean().description('`true`: the schedule does not run until the field is `false` again.'),
}

const csvSafe = joi
  .boolean()
  .description("`false`: CSV cells that a spreadsheet would execute as formulas are not prefixed with `'`.")

export const createExportBody = joi.object<CreateExportBody>({
  site_id: siteId.required(),
  type: enumText(exportTypes)
    .required()
    .example('events')
    .description(
      'Kind of the rows. Exports of events, sessions and stats need the scope `stats:read`, those of users and cohorts the scope `cohorts:read`.',
    ),
  name,
  format: enumText(exportFormats)
    .required()
    .example('csv')
    .description('`json`: one array. `ndjson`: one JSON object per line.'),
  scheduled: orNull(
    nestedObject(
      joi.object<NonNullable<CreateExportBody['scheduled']>>({
        ...schedule,
        paused: orNull(schedule.paused),
        frequency: schedule.frequency.required(),
        next_run: orNull(schedule.next_run).description(
          'Time of the first run, Unix ms. Later runs follow from it in the site’s time zone. A time in the past, or none, starts the first run immediately.',
        ),
      }),
    ),
  ).description('Schedule on which files are written. Without it, the export writes one file.'),
  start_date: orNull(date).description(
    'Exports only events from this time on, Unix ms. For a schedule of events: start of the first run’s range.',
  ),
  end_date: orNull(date).description('Exports only events before this time, Unix ms. Not allowed with `scheduled`.'),
  environment: orNull(enumText([...environments, 'all'])).description(
    'Environment whose events are read; default: that of the key.',
  ),
  filter: filterSchema.description(
    'Exports only events that meet all of these conditions, or only users and sessions with such an event.',
  ),
  cohort_id: text(cohortLimits.idLengthMax).description(
    'The cohort of a `cohort` export. An export of events, users or sessions contains only those of the cohort’s users. Not allowed with `stats`.',
  ),
  metric: orNull(enumText(metrics)).description('The metric of a `stats` export; not allowed with other types.'),
  group_by: groupBy
    .empty(joi.valid('', null))
    .description('Grouping of a `stats` export, as for statistics. A schedule by `minute` must be `hourly`.'),
  compression: orNull(enumText(compressions)).description(
    'Compression of the file. Not allowed with `parquet`, which is compressed already.',
  ),
  csv_safe: orNull(csvSafe),
})

export const updateExportBody = joi.object<UpdateExportBody>({
  site_id: repeatedSiteId,
  // An export always has a name: `null` and `""` are invalid here instead of absent.
  name: name.empty().description('Name of the export and of its file.'),
  scheduled: nestedObject(joi.object<Partial<Scheduled>>(schedule)).description(
    'Allowed only for an export that was created with a schedule. Fields that are left out keep their value.',
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
      'For a schedule, this field and the fields below are those of its latest run; `queued` before the first run.',
    ),
    rows: count.description('Number of rows in the file so far.'),
    bytes: count.description('Size of the file in bytes; 0 before it is complete.'),
    progress: joi.number().min(0).max(100).required().description('Estimated progress in percent.'),
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
    expires_at: timeOrNull.description('Time at which the file is removed, Unix ms.'),
    error: joi
      .string()
      .allow(null)
      .required()
      .description('Why the export failed, or why its file was removed early. Null: neither happened.'),
  })
  .id('Export')

const exportRun = joi.object<ExportRun>({
  export_id: joi.string().required().description('Id of the run, which is an export of its own.'),
  status,
  start_date: timeOrNull.description(
    'Start of the run’s range, which is compared with the time of receipt of events, and with their timestamp for stats. Null: the file shows the state at `end_date`.',
  ),
  end_date: count,
  rows: count,
  bytes: count,
})

/** `data` of the list. */
export const exportsResult = listOf('exports', exportResource)

/** `data` of the list of a schedule's runs. */
export const exportRunsResult = listOf('runs', exportRun)
