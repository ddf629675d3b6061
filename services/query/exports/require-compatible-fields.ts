import { type CreateExportBody, mayGroup } from '@sluice/contracts/exports'
import { invalidField, missingField } from '@sluice/runtime/errors'

/**
 * Throws 400 for fields that do not go with each other: with the type, the format or a schedule
 * (docs/http-interface.md#create-export). `now` is in Unix ms.
 */
export function requireCompatibleFields(body: CreateExportBody, now: number): void {
  const { type, format, scheduled, start_date: start, end_date: end } = body
  if (type === 'stats') {
    if (body.metric === undefined) throw missingField('metric')
    if (body.cohort_id !== undefined) throw invalidField('cohort_id', 'is not allowed with type stats')
  } else {
    for (const field of ['metric', 'group_by'] as const) {
      if (body[field] !== undefined) throw invalidField(field, 'is allowed only with type stats')
    }
    if (type === 'cohort' && body.cohort_id === undefined) throw missingField('cohort_id')
  }
  if (format === 'parquet' && body.compression !== undefined) {
    throw invalidField('compression', 'does not go with format parquet, which compresses by itself')
  }
  if (scheduled !== undefined) {
    if (end !== undefined) throw invalidField('end_date', 'does not go with scheduled: each run has an end of its own')
    if (start !== undefined && type === 'stats') {
      throw invalidField('start_date', 'does not go with scheduled stats: each run is of the period before it')
    }
    if (!mayGroup(body.group_by, scheduled.frequency)) {
      throw invalidField(
        'group_by',
        `must not be minute with scheduled.frequency ${scheduled.frequency}: only hourly is short enough`,
      )
    }
  }
  if (start !== undefined && start >= (end ?? now)) {
    throw invalidField('start_date', end === undefined ? 'must be before now' : 'must be before end_date')
  }
}
