import { type Actor, actors } from '@sluice/contracts/actors'
import { isOneOf } from '@sluice/contracts/conditions'
import { pageDefaults } from '@sluice/contracts/paging'
import { retentionLimits, type RetentionMode, retentionModes } from '@sluice/contracts/retention'
import { useApi } from '../../api/hooks.ts'
import { formatCompact } from '../../format/numbers.ts'
import type { AddressProblem } from '../../page-components/address-problems.tsx'
import { usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import { useMay } from '../../state/session.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import { Field, SelectField } from '../../ui/field.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { texts } from './messages.ts'

const offeredWeeks = [4, 8, 12, 26, 52]

export interface RetentionSettings {
  weeks: number
  mode: RetentionMode
  actor: Actor
  returnEvent: string | undefined
  cohortId: string | undefined
  problems: readonly AddressProblem[]
  set: (name: 'weeks' | 'mode' | 'of' | 'return_event' | 'cohort', value: string | undefined) => void
}

/** What the page's address asks for. */
export function useSettings(): RetentionSettings {
  const [weeks, setWeeks] = usePageParameter('weeks')
  const [mode, setMode] = usePageParameter('mode')
  const [actor, setActor] = usePageParameter('of')
  const [returnEvent, setReturnEvent] = usePageParameter('return_event')
  const [cohortId, setCohort] = usePageParameter('cohort')
  const number = Number(weeks ?? retentionLimits.weeksDefault)
  const isWeeks = Number.isInteger(number) && number >= 1 && number <= retentionLimits.weeksMax
  const isMode = mode === undefined || isOneOf(retentionModes, mode)
  const isActor = actor === undefined || isOneOf(actors, actor)
  const problems: AddressProblem[] = []
  if (!isWeeks) problems.push({ parameter: 'weeks', value: weeks ?? '' })
  if (!isMode) problems.push({ parameter: 'mode', value: mode })
  if (!isActor) problems.push({ parameter: 'of', value: actor })
  return {
    weeks: isWeeks ? number : retentionLimits.weeksDefault,
    mode: isMode ? (mode ?? 'on') : 'on',
    actor: isActor ? (actor ?? 'user') : 'user',
    returnEvent,
    cohortId,
    problems,
    set: (name, value) => {
      const setters = { weeks: setWeeks, mode: setMode, of: setActor, return_event: setReturnEvent, cohort: setCohort }
      setters[name](value)
    },
  }
}

/** The choices above the matrix. */
export function Settings({ settings }: { settings: RetentionSettings }) {
  const { weeks, mode, actor, returnEvent, cohortId, set } = settings
  const { siteId } = useView()
  const { environment } = useViewQueries()
  const mayCohorts = useMay('cohorts:read')
  const mayProperties = useMay('stats:read')
  const cohorts = useApi(
    'listCohorts',
    mayCohorts ? { query: { site_id: siteId, limit: pageDefaults.limitMax } } : null,
  )
  const observed = useApi('properties', mayProperties ? { query: { site_id: siteId, environment } } : null, {
    staleMs: 300_000,
  })
  const types = observed.data?.properties.find(({ name }) => name === 'event_type')?.values ?? []
  const known = cohorts.data?.cohorts ?? []
  const isKnown = cohortId === undefined || known.some(({ cohort_id }) => cohort_id === cohortId)
  const choices = [...new Set([...offeredWeeks, weeks])].sort((one, other) => one - other)
  return (
    <>
      <div class="retention-settings">
        <SelectField
          label={texts.weeks}
          value={String(weeks)}
          options={choices.map((each) => ({ value: String(each), label: texts.lastWeeks(each) }))}
          onChange={(value) => set('weeks', value === String(retentionLimits.weeksDefault) ? undefined : value)}
        />
        <SelectField
          label={texts.countOf}
          value={actor}
          options={actors.map((value) => ({ value, label: texts.actors[value] }))}
          onChange={(value) => set('of', value === 'user' ? undefined : value)}
        />
        <Field label={texts.returnEvent}>
          {(attributes) => (
            <Combobox
              takesTexts
              attributes={attributes}
              value={returnEvent ?? ''}
              options={[
                { value: '', label: texts.anyEvent },
                ...(returnEvent === undefined || types.some(({ value }) => value === returnEvent)
                  ? []
                  : [{ value: returnEvent, label: returnEvent }]),
                ...types.map(({ value, count }) => ({ value, label: value, detail: formatCompact(count) })),
              ]}
              onChange={(value) => set('return_event', value === '' ? undefined : value)}
            />
          )}
        </Field>
        <SelectField
          label={texts.mode}
          value={mode}
          options={retentionModes.map((value) => ({ value, label: texts.modes[value] }))}
          onChange={(value) => set('mode', value === 'on' ? undefined : value)}
        />
        <SelectField
          label={texts.cohort}
          hint={mayCohorts ? undefined : texts.cohortScope}
          disabled={!mayCohorts}
          value={cohortId ?? ''}
          options={[
            { value: '', label: texts.everyone[actor] },
            ...(isKnown ? [] : [{ value: cohortId, label: cohortId }]),
            ...known.map(({ cohort_id, name }) => ({ value: cohort_id, label: name })),
          ]}
          onChange={(value) => set('cohort', value === '' ? undefined : value)}
        />
      </div>
      <ErrorPanel error={cohorts.error} onRetry={cohorts.retry} />
      <ErrorPanel error={observed.error} onRetry={observed.retry} />
    </>
  )
}
