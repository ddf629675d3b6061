import { useState } from 'preact/hooks'
import {
  compressions,
  type CreateExportBody,
  exportFormats,
  type ExportType,
  exportTypes,
  frequencies,
  mayGroup,
} from '@sluice/contracts/exports'
import { pageDefaults } from '@sluice/contracts/paging'
import { groupFields, metrics, timeUnits } from '@sluice/contracts/stats'
import { serverNow } from '../../api/client.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useApi, useOperationMutation } from '../../api/hooks.ts'
import { parseLocalTime } from '../../format/dates.ts'
import { andList } from '../../format/names.ts'
import { conditionLabel, propertyLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { useView } from '../../state/hooks.ts'
import { type Bounds, boundsOf, isValidCustom } from '../../state/range.ts'
import { useMay, useSession, useSite, useSiteZone } from '../../state/session.tsx'
import { Checkbox } from '../../ui/choice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const formFields = [
  ...['name', 'type', 'format', 'compression', 'metric', 'group_by', 'cohort_id', 'start_date', 'end_date'],
  'scheduled.next_run',
]
const groupings = [...timeUnits, ...groupFields]

interface Draft {
  name: string
  type: ExportType
  format: (typeof exportFormats)[number]
  compression: 'none' | (typeof compressions)[number]
  environment: 'prod' | 'dev' | 'all'
  metric: (typeof metrics)[number]
  groupBy: 'none' | (typeof groupings)[number]
  cohortId: string
  from: string
  to: string
  frequency: 'once' | (typeof frequencies)[number]
  /** `2026-11-22T14:05` in the site's zone; empty: now. */
  nextRun: string
  isFiltered: boolean
  isRaw: boolean
}

/** The dialog for a new export. */
export function ExportForm({ onClose, onCreated }: { onClose: () => void; onCreated: (id: string) => void }) {
  const site = useSite()
  const siteZone = useSiteZone()
  const session = useSession()
  const { filters } = useView()
  const mayReadStats = useMay('stats:read')
  const mayReadCohorts = useMay('cohorts:read')
  const create = useOperationMutation('createExport', ['listExports'])
  const [isTried, setTried] = useState(false)
  const [draft, setDraft] = useState<Draft>({
    name: '',
    type: mayReadStats ? 'events' : 'users',
    format: 'csv',
    compression: 'none',
    environment: session.environment,
    metric: 'event_count',
    groupBy: 'day',
    cohortId: '',
    from: '',
    to: '',
    frequency: 'once',
    nextRun: '',
    isFiltered: filters.length > 0,
    isRaw: false,
  })
  const set = (patch: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...patch }))
  }
  const { type, format } = draft
  const zone = siteZone ?? 'UTC'
  const isOnce = draft.frequency === 'once'
  const errors = fieldErrors(create.error, formFields)
  const range = { from: draft.from || '1971-01-01', to: draft.to || '2099-12-31' }
  const problems = {
    cohort: type === 'cohort' && draft.cohortId === '' ? texts.missingCohort : undefined,
    // A schedule has no days; those that were entered before it was chosen are out of sight.
    range: isOnce && !isValidCustom(range) ? texts.wrongRange : undefined,
  }
  const mayExport = (each: ExportType) => (each === 'users' || each === 'cohort' ? mayReadCohorts : mayReadStats)
  const submit = async () => {
    setTried(true)
    if (problems.cohort !== undefined || problems.range !== undefined) return
    const bounds = isOnce ? boundsOf(range, { now: serverNow(), zone, firstEventAt: site.first_event_at }) : undefined
    const body = bodyOf(draft, site.site_id, bounds, zone)
    const { export_id: id } = await create.run({ body: draft.isFiltered ? { ...body, filter: filters } : body })
    onCreated(id)
  }
  return (
    <FormDialog
      title={texts.create}
      submit={texts.submit}
      onSubmit={submit}
      onClose={onClose}
      isBusy={create.isBusy}
      error={errors.rest}
    >
      <TextField
        label={texts.name}
        isOptional
        hint={texts.nameHint}
        value={draft.name}
        onInput={(name) => {
          set({ name })
        }}
        autocomplete="off"
        error={errors.forField('name')}
      />
      <SelectField
        label={texts.type}
        value={type}
        options={exportTypes.map((value) => ({ value, label: texts.types[value], disabled: !mayExport(value) }))}
        onChange={(value) => {
          set({ type: value })
        }}
        error={errors.forField('type')}
      />
      {type === 'stats' ? <StatsChoice draft={draft} set={set} errorOf={errors.forField} /> : null}
      {type === 'cohort' ? (
        <CohortChoice
          draft={draft}
          set={set}
          errorOf={(field) => (isTried ? problems.cohort : undefined) ?? errors.forField(field)}
        />
      ) : null}
      <div class="field-columns">
        <SelectField
          label={texts.format}
          value={format}
          options={exportFormats.map((value) => ({ value, label: texts.formats[value] }))}
          onChange={(value) => {
            set(value === 'parquet' ? { format: value, compression: 'none' } : { format: value })
          }}
          error={errors.forField('format')}
        />
        {format === 'parquet' ? null : (
          <SelectField
            label={texts.compression}
            value={draft.compression}
            options={(['none', ...compressions] as const).map((value) => ({
              value,
              label: texts.compressions[value],
            }))}
            onChange={(compression) => {
              set({ compression })
            }}
            error={errors.forField('compression')}
          />
        )}
      </div>
      <div class="field-columns">
        <SelectField
          label={texts.environment}
          value={draft.environment}
          options={(['prod', 'dev', 'all'] as const).map((value) => ({ value, label: texts.environments[value] }))}
          onChange={(environment) => {
            set({ environment })
          }}
        />
        <SelectField
          label={texts.repeat}
          value={draft.frequency}
          options={(['once', ...frequencies] as const).map((value) => ({ value, label: texts.frequencies[value] }))}
          onChange={(frequency) => {
            set(mayRepeat(draft.groupBy, frequency) ? { frequency } : { frequency, groupBy: 'hour' })
          }}
        />
      </div>
      {isOnce ? (
        <>
          <div class="field-columns">
            <TextField
              label={texts.from}
              type="date"
              value={draft.from}
              onInput={(from) => {
                set({ from })
              }}
              error={(isTried ? problems.range : undefined) ?? errors.forField('start_date')}
            />
            <TextField
              label={texts.to}
              type="date"
              value={draft.to}
              onInput={(to) => {
                set({ to })
              }}
              error={errors.forField('end_date')}
            />
          </div>
          <p class="hint">{siteZone === undefined ? texts.utcRangeHint : texts.rangeHint}</p>
        </>
      ) : (
        <>
          <TextField
            label={texts.nextRunIn(zone)}
            isOptional
            hint={texts.nextRunHint}
            type="datetime-local"
            value={draft.nextRun}
            onInput={(nextRun) => {
              set({ nextRun })
            }}
            error={errors.forField('scheduled.next_run')}
          />
          {type === 'events' ? <p class="hint">{texts.repeatHint}</p> : null}
        </>
      )}
      {filters.length === 0 ? null : (
        <Checkbox
          label={<bdi>{texts.filter(andList(filters.map(conditionLabel)))}</bdi>}
          checked={draft.isFiltered}
          onChange={(isFiltered) => {
            set({ isFiltered })
          }}
        />
      )}
      {format === 'csv' ? (
        <Checkbox
          label={texts.raw}
          hint={texts.rawHint}
          checked={draft.isRaw}
          onChange={(isRaw) => {
            set({ isRaw })
          }}
        />
      ) : null}
    </FormDialog>
  )
}

/** Whether an export that is made so often may have the grouping. */
function mayRepeat(groupBy: Draft['groupBy'], frequency: Draft['frequency']): boolean {
  return groupBy === 'none' || frequency === 'once' || mayGroup(groupBy, frequency)
}

interface PartProps {
  draft: Draft
  set: (patch: Partial<Draft>) => void
  errorOf: (field: string) => string | undefined
}

const StatsChoice = ({ draft, set, errorOf }: PartProps) => (
  <div class="field-columns">
    <SelectField
      label={texts.metric}
      value={draft.metric}
      options={metrics.map((value) => ({ value, label: messages.metrics[value] }))}
      onChange={(metric) => {
        set({ metric })
      }}
      error={errorOf('metric')}
    />
    <SelectField
      label={texts.groupBy}
      value={draft.groupBy}
      options={[
        { value: 'none', label: texts.notGrouped },
        ...groupings
          .filter((value) => mayRepeat(value, draft.frequency))
          .map((value) => ({ value, label: texts.units[value] ?? propertyLabel(value) })),
      ]}
      onChange={(groupBy) => {
        set({ groupBy })
      }}
      error={errorOf('group_by')}
    />
  </div>
)

function CohortChoice({ draft, set, errorOf }: PartProps) {
  const { site_id: siteId } = useSite()
  const cohorts = useApi('listCohorts', { query: { site_id: siteId, limit: pageDefaults.limitMax } })
  return (
    <>
      <SelectField
        label={texts.cohort}
        value={draft.cohortId}
        options={[
          { value: '', label: cohorts.data?.cohorts.length === 0 ? texts.noCohort : '' },
          ...(cohorts.data?.cohorts.map((each) => ({ value: each.cohort_id, label: each.name })) ?? []),
        ]}
        onChange={(cohortId) => {
          set({ cohortId })
        }}
        error={errorOf('cohort_id')}
      />
      <ErrorPanel error={cohorts.error} onRetry={cohorts.retry} />
    </>
  )
}

/** The body of POST /exports for what the form holds; fields that don't fit the type are left out. */
function bodyOf(draft: Draft, siteId: string, bounds: Bounds | undefined, zone: string): CreateExportBody {
  const nextRun = parseLocalTime(draft.nextRun, zone)
  return {
    site_id: siteId,
    type: draft.type,
    format: draft.format,
    environment: draft.environment,
    ...(draft.name.trim() === '' ? {} : { name: draft.name.trim() }),
    ...(draft.compression === 'none' ? {} : { compression: draft.compression }),
    ...(draft.type === 'stats' ? { metric: draft.metric } : {}),
    ...(draft.type === 'stats' && draft.groupBy !== 'none' ? { group_by: draft.groupBy } : {}),
    ...(draft.type === 'cohort' ? { cohort_id: draft.cohortId } : {}),
    ...(bounds !== undefined && draft.from !== '' ? { start_date: bounds.startMs } : {}),
    ...(bounds !== undefined && draft.to !== '' ? { end_date: bounds.endMs } : {}),
    ...(draft.frequency === 'once'
      ? {}
      : { scheduled: { frequency: draft.frequency, ...(Number.isNaN(nextRun) ? {} : { next_run: nextRun }) } }),
    ...(draft.format === 'csv' && draft.isRaw ? { csv_safe: false } : {}),
  }
}
