import { patternsTooLarge } from '@sluice/api/pattern'
import { cohortLimits } from '@sluice/contracts/cohorts'
import { conditionLimits } from '@sluice/contracts/conditions'
import { eventLimits, propertyLimits } from '@sluice/contracts/event-limits'
import { exportLimits } from '@sluice/contracts/exports'
import { importLimits } from '@sluice/contracts/imports'
import { batchMediaTypes, contentEncodings, eventMediaTypes } from '@sluice/contracts/media-types'
import { segmentLimits } from '@sluice/contracts/segment-limits'
import { webhookLimits } from '@sluice/contracts/webhooks'
import { fileLimits } from '@sluice/imports/file-limits'
import { recordTooLarge } from '@sluice/imports/file-record'
import { serverLimits } from '../packages/http/server-limits.ts'
import { alertLimitDescriptions } from './alert-limits.ts'
import { idempotencyLimitDescriptions } from './idempotency-limits.ts'
import { body, hours, type LimitDescription, number, type Refusal, refused, text } from './limit-description.ts'

export const limits = { ...eventLimits, ...propertyLimits }

export type LimitName = keyof typeof limits

/** Every limit of collection: a new one without a line here does not compile. */
export const limitDescriptions: Readonly<Record<LimitName, LimitDescription>> = {
  siteIdLengthMax: text('site_id', limits.siteIdLengthMax),
  eventTypeLengthMax: text('event_type', limits.eventTypeLengthMax),
  futureMsMax: {
    what: '`timestamp` ahead of the time of receipt',
    value: hours(limits.futureMsMax),
    beyond: refused(400, `Invalid field: timestamp must not be more than ${hours(limits.futureMsMax)} in the future`),
  },
  timestampMsMin: {
    what: 'earliest `timestamp`',
    value: `${limits.timestampMsMin} (${new Date(limits.timestampMsMin).toISOString().slice(0, 10)})`,
    beyond: refused(
      400,
      `Invalid field: timestamp must be Unix time in milliseconds, not before ${new Date(limits.timestampMsMin).getUTCFullYear()}`,
    ),
  },
  sessionIdLengthMax: text('session_id', limits.sessionIdLengthMax),
  userIdLengthMax: text('user_id', limits.userIdLengthMax),
  anonymousIdLengthMax: text('anonymous_id', limits.anonymousIdLengthMax),
  eventIdLengthMax: text('event_id', limits.eventIdLengthMax),
  urlLengthMax: text('url', limits.urlLengthMax),
  referrerLengthMax: text('referrer', limits.referrerLengthMax),
  keysMax: {
    what: 'properties, after flattening',
    value: number(limits.keysMax),
    beyond: refused(400, `Invalid field: properties must not have more than ${limits.keysMax} keys after flattening`),
  },
  keyLengthMax: {
    what: 'name of a property, after flattening',
    value: `${number(limits.keyLengthMax)} characters`,
    beyond: refused(400, `Invalid field: <property> has a name longer than ${limits.keyLengthMax} characters`),
  },
  stringLengthMax: {
    what: 'text of a property',
    value: `${number(limits.stringLengthMax)} characters`,
    beyond: refused(400, `Invalid field: <property> exceeds maximum length of ${limits.stringLengthMax}`),
  },
  depthMax: {
    what: 'nesting of an event, itself included',
    value: `${number(limits.depthMax)} levels`,
    beyond: refused(400, `Invalid field: <property> is nested deeper than ${limits.depthMax} levels`),
  },
  eventBytesMax: {
    ...body('one event: alone its body, in a batch its compact JSON or its line', limits.eventBytesMax),
    inBatch: `Event is larger than ${limits.eventBytesMax} bytes`,
  },
  batchEventsMax: {
    what: 'events of a batch',
    value: number(limits.batchEventsMax),
    beyond: refused(400, `Invalid field: events must contain at most ${limits.batchEventsMax} events`),
  },
  batchBytesMax: body('body of a batch, after decompression and before', limits.batchBytesMax),
  listedErrorsMax: {
    what: 'errors that the answer to a batch lists, the first ones',
    value: number(limits.listedErrorsMax),
    beyond: 'counted in `rejected`, not listed',
  },
  newSitesPerDayMax: {
    what: 'sites that a key registers in any 24 hours',
    value: number(limits.newSitesPerDayMax),
    beyond: refused(429, 'Rate limit exceeded. Retry after <n> seconds.'),
  },
  copyWindowMs: {
    what: 'time between copies of an event that has an `event_id` and no `timestamp`',
    value: `${limits.copyWindowMs / 60_000} minutes`,
    beyond: 'an event of its own',
  },
}

/** Every limit of conditions; the fields are those of a `filter`. */
export const conditionLimitDescriptions: Readonly<Record<keyof typeof conditionLimits, LimitDescription>> = {
  conditionsMax: {
    what: 'conditions, those of nested criteria included',
    value: number(conditionLimits.conditionsMax),
    beyond: refused(400, `Invalid field: filter must contain at most ${conditionLimits.conditionsMax} conditions`),
  },
  criteriaDepthMax: {
    what: 'levels of criteria, a filter’s list being the first',
    value: number(conditionLimits.criteriaDepthMax),
    beyond: refused(400, `Invalid field: <condition> is nested deeper than ${conditionLimits.criteriaDepthMax} levels`),
  },
  valueLengthMax: text('<condition>.value', conditionLimits.valueLengthMax),
  valuesMax: {
    what: 'values of `in` and `not_in`',
    value: number(conditionLimits.valuesMax),
    beyond: refused(400, `Invalid field: <condition>.value must contain at most ${conditionLimits.valuesMax} items`),
  },
  textBytesMax: {
    what: 'values and properties of all conditions together',
    value: `${number(conditionLimits.textBytesMax)} bytes`,
    beyond: refused(
      400,
      `Invalid field: filter must not hold more than ${conditionLimits.textBytesMax} bytes of values and properties`,
    ),
  },
  patternLengthMax: {
    ...text('<condition>.value', conditionLimits.patternLengthMax),
    what: '`<condition>.value` of `matches`',
  },
  patternStepsMax: {
    what: 'steps of a pattern with its repetitions written out, `\\pL` and the like counting 5',
    value: number(conditionLimits.patternStepsMax),
    beyond: refused(
      400,
      `Invalid field: <condition>.value is too heavy a regular expression: its repetitions and ranges, written out, make more than ${conditionLimits.patternStepsMax} steps`,
    ),
  },
  patternStepsTotalMax: {
    what: 'steps of all patterns of a filter, of criteria or of the steps of a funnel together',
    value: number(conditionLimits.patternStepsTotalMax),
    beyond: refused(400, `Invalid field: filter ${patternsTooLarge}`),
  },
}

/** A part of a file, which its user does not see. */
type SegmentLimit = 'segmentRecordsMax' | 'segmentBytesMax'

const ofRecord = 'the record’s error: '

/** Every limit of imports; the texts in angle brackets depend on the file. */
const importLimitDescriptions: Readonly<
  Record<keyof typeof importLimits | Exclude<keyof typeof fileLimits, SegmentLimit>, LimitDescription>
> = {
  fileBytesMax: {
    what: 'file',
    value: `${number(importLimits.fileBytesMax)} bytes`,
    beyond: refused(413, `File is larger than ${importLimits.fileBytesMax} bytes`),
  },
  unpackedBytesMax: {
    what: 'file, after decompression',
    value: `${number(fileLimits.unpackedBytesMax)} bytes`,
    beyond: refused(413, `File has more than ${fileLimits.unpackedBytesMax} bytes after decompression`),
  },
  recordsMax: {
    what: 'records of a file',
    value: number(fileLimits.recordsMax),
    beyond: refused(413, `File has more than ${fileLimits.recordsMax} records: split it`),
  },
  concurrentUploadsMax: {
    what: 'uploads of a key that are under way at once',
    value: number(importLimits.concurrentUploadsMax),
    beyond: refused(429, 'Rate limit exceeded. Retry after <n> seconds.'),
  },
  waitingPerKeyMax: {
    what: 'imports of a key that have not ended, including its uploads',
    value: number(importLimits.waitingPerKeyMax),
    beyond: refused(
      409,
      `The key has ${importLimits.waitingPerKeyMax} imports that have not ended: wait, or cancel some`,
    ),
  },
  columnsMax: {
    what: 'columns of a CSV file',
    value: number(fileLimits.columnsMax),
    beyond: refused(400, `Invalid format: header has <n> columns, more than ${fileLimits.columnsMax}`),
  },
  recordBytesMax: {
    what: 'record as it stands in the file',
    value: `${number(fileLimits.recordBytesMax)} bytes`,
    beyond: `${ofRecord}\`${recordTooLarge}\``,
  },
  eventRowBytesMax: {
    what: 'event of a file, as it is stored',
    value: `${number(fileLimits.eventRowBytesMax)} bytes`,
    beyond: `${ofRecord}\`Event is larger than ${fileLimits.eventRowBytesMax} bytes when it is stored\``,
  },
  errorRetentionDays: {
    what: 'time for which the errors of an import can be read after its end',
    value: `${importLimits.errorRetentionDays} days`,
    beyond: refused(
      410,
      `The errors of an import can be read for ${importLimits.errorRetentionDays} days after its end`,
    ),
  },
  userFieldLengthMax: {
    what: 'field of a user',
    value: `${number(importLimits.userFieldLengthMax)} characters`,
    beyond: `${ofRecord}\`Invalid field: <field> exceeds maximum length of ${importLimits.userFieldLengthMax}\``,
  },
}

/** Every limit of exports; a file may have any number of rows. */
const exportLimitDescriptions: Readonly<Record<keyof typeof exportLimits, LimitDescription>> = {
  nameLengthMax: text('name', exportLimits.nameLengthMax),
  fileRetentionDays: {
    what: 'time for which a file can be downloaded after its completion',
    value: `${exportLimits.fileRetentionDays} days`,
    beyond: refused(410, `The file of an export can be downloaded for ${exportLimits.fileRetentionDays} days`),
  },
  recordRetentionDays: {
    what: 'time for which the record of an export is kept after its end; a schedule and its latest run stay',
    value: `${exportLimits.recordRetentionDays} days`,
    beyond: refused(404, 'Export not found'),
  },
  waitingPerKeyMax: {
    what: 'exports of a site that a key has requested and that have not ended, without those of schedules',
    value: number(exportLimits.waitingPerKeyMax),
    beyond: refused(
      409,
      `The key has ${exportLimits.waitingPerKeyMax} exports of this site that have not ended: wait, or delete some`,
    ),
  },
  schedulesPerSiteMax: {
    what: 'schedules of a site',
    value: number(exportLimits.schedulesPerSiteMax),
    beyond: refused(
      409,
      `Site has ${exportLimits.schedulesPerSiteMax} schedules of exports, the maximum: delete one first`,
    ),
  },
}

/** Every limit of cohorts that a request can meet, besides those of their criteria. */
const cohortLimitDescriptions: Readonly<Record<keyof typeof cohortLimits, LimitDescription>> = {
  nameLengthMax: text('name', cohortLimits.nameLengthMax),
  descriptionLengthMax: text('description', cohortLimits.descriptionLengthMax),
  cohortsPerSiteMax: {
    what: 'cohorts of a site',
    value: number(cohortLimits.cohortsPerSiteMax),
    beyond: refused(409, `Site has ${cohortLimits.cohortsPerSiteMax} cohorts, the maximum: delete one first`),
  },
  idLengthMax: text('cohort_id', cohortLimits.idLengthMax),
}

/** Every limit of webhooks that a request can meet, or that bounds what is kept. */
const webhookLimitDescriptions: Readonly<Record<keyof typeof webhookLimits, LimitDescription>> = {
  urlLengthMax: text('url', webhookLimits.urlLengthMax),
  secretLengthMax: text('secret', webhookLimits.secretLengthMax),
  webhooksPerSiteMax: {
    what: 'webhooks of a site',
    value: number(webhookLimits.webhooksPerSiteMax),
    beyond: refused(409, `Site has ${webhookLimits.webhooksPerSiteMax} webhooks, the maximum: delete one first`),
  },
  deliveryRetentionDays: {
    what: 'time for which a delivery can be read and sent again',
    value: `${webhookLimits.deliveryRetentionDays} days`,
    beyond: refused(404, 'Delivery not found'),
  },
  attemptsKeptMax: {
    what: 'attempts of a delivery that are kept',
    value: number(webhookLimits.attemptsKeptMax),
    beyond: 'the oldest are removed',
  },
  responseBytesMax: {
    what: 'what is read of a response',
    value: `${number(webhookLimits.responseBytesMax)} bytes`,
    beyond: 'not read',
  },
  attemptTimeoutMs: {
    what: 'time of an attempt in all',
    value: `${webhookLimits.attemptTimeoutMs / 1_000} s`,
    beyond: 'the attempt has failed',
  },
}

/** The text of docs/limits.md, from the constants of packages/contracts. */
export function limitsPage(): string {
  return `# Limits

## Collection

Generated by \`npm run docs\` from the constants of \`packages/contracts\`; \`services/gateway/collect/limits.test.ts\` tests
each limit, and the value above it.

Characters are code points, bytes are those of UTF-8. In a batch, what is wrong with an event is that event's error, and
the others are accepted.

${table(limitDescriptions)}

### Bodies

- \`POST /collect\` takes ${list(eventMediaTypes)}.
- \`POST /collect/batch\` takes ${list(batchMediaTypes)}.
- The paths of Segment’s clients take ${list(eventMediaTypes)}, up to ${number(segmentLimits.messageBodyBytesMax)} bytes, a batch
  up to ${number(segmentLimits.batchBodyBytesMax)}: 413 \`Request body is larger than <n> bytes\`.
- \`Content-Encoding\` is ${list(contentEncodings)}, \`identity\` or absent.

Others are refused with 415, and so is a charset other than utf-8. Compressed data that is broken, cut off, or followed by more data is refused with 400.
Decompression stops at the limit of the body.

## Repeated requests

From \`packages/contracts/idempotency.ts\`. They hold for requests with [\`Idempotency-Key\`](http-interface.md#idempotency) alone.

${table(idempotencyLimitDescriptions)}

## Conditions

These limits are those of a \`filter\`; criteria of cohorts and conditions of funnel steps have the same, under their own names.
The URL and the headers of a request have at most ${serverLimits.headerBytesMax / 1024} KiB together. Statistics with a longer \`filter\`
are read by \`POST /api/v1/stats/batch\`, events by an export.
\`packages/api/conditions.test.ts\` tests each limit, and the value above it.

${table(conditionLimitDescriptions)}

## Cohorts

From \`packages/contracts/cohorts.ts\`.

${table(cohortLimitDescriptions)}

## Imports

From \`packages/contracts/imports.ts\` and \`packages/imports/file-limits.ts\`. The limits of collection hold for each event
of a file, except for its size.

${table(importLimitDescriptions)}

## Exports

From \`packages/contracts/exports.ts\`. A file may have any number of rows, and up to 460 GB after compression; one export of a site is written at a time.

${table(exportLimitDescriptions)}

## Webhooks

From \`packages/contracts/webhooks.ts\`.

${table(webhookLimitDescriptions)}

## Alert rules

From \`packages/contracts/alerts.ts\`.

${table(alertLimitDescriptions)}
`
}

function table(descriptions: Readonly<Record<string, LimitDescription>>): string {
  const rows = Object.entries(descriptions).map(
    ([name, { what, value, beyond, inBatch }]) =>
      `| ${what} | ${value} | ${beyondText(beyond)}${inBatch === undefined ? '' : `; in a batch \`${inBatch}\``} | \`${name}\` |`,
  )
  return `| Limit | Value | Beyond it | Constant |
| --- | --- | --- | --- |
${rows.join('\n')}`
}

function beyondText(beyond: Refusal | string): string {
  return typeof beyond === 'string' ? beyond : `${beyond.status} \`${beyond.error}\``
}

function list(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ')
}
