import type { Actor } from '@sluice/contracts/actors'
import { funnelLimits, type FunnelResult } from '@sluice/contracts/funnel'
import { useFromAnswer } from '../../api/hooks.ts'
import { requestOf } from '../../api/request.ts'
import { fileNameOf } from '../../format/csv.ts'
import { relativeOf } from '../../format/curl.ts'
import { formatBounds } from '../../format/dates.ts'
import { rangeLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { AddressProblems } from '../../page-components/address-problems.tsx'
import { UnusedFilters } from '../../page-components/unused-filters.tsx'
import { useMenuKey } from '../../page-components/use-menu-key.ts'
import { WiderView } from '../../page-components/wider-view.tsx'
import { useView, useViewQueries } from '../../state/hooks.ts'
import { datesOf } from '../../state/range.ts'
import { Button } from '../../ui/button.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Icon } from '../../ui/icon.tsx'
import { MoreMenu } from '../../ui/more-menu.tsx'
import { Change, Num } from '../../ui/numbers.tsx'
import { EmptyState, ErrorPanel, PageTitle, Skeleton, SkeletonRows } from '../../ui/states.tsx'
import { texts } from './messages.ts'
import { StepEditor } from './step-editor.tsx'
import { formatSteps } from './steps.ts'
import { type Funnel, useFunnel } from './use-funnel.ts'

const offeredWindows = ['1h', '1d', '7d', '14d', '30d', '90d']

type StepResult = FunnelResult['steps'][number]

/** Where people stop on the way through two to eight steps. */
export default function Page() {
  const { hrefOf, range } = useView()
  const funnel = useFunnel()
  useMenuKey()
  const { observed, steps, types, isSuggested, problems } = funnel
  const liveHref = hrefOf({}, 'live')
  return (
    <>
      <PageTitle title={messages.nav.funnels} sentence={texts.sentence(rangeLabel(range))} />
      <div class="stack funnels">
        <UnusedFilters why={texts.chips} />
        <AddressProblems problems={problems} />
        <ErrorPanel error={observed.error} onRetry={observed.retry} />
        {steps.length > 0 ? (
          <>
            {observed.data !== undefined && types.length === 0 ? (
              <p class="muted small">
                {texts.unknownTypes} <a href={liveHref}>{texts.toLive}</a>
              </p>
            ) : isSuggested ? (
              <p class="muted small">{texts.suggested}</p>
            ) : null}
            <Settings funnel={funnel} />
            <Result funnel={funnel} />
            <Steps funnel={funnel} />
          </>
        ) : observed.isLoading ? (
          <SkeletonRows rows={8} />
        ) : observed.error === undefined ? (
          <EmptyState
            title={texts.noEvents}
            why={texts.noEventsWhy}
            action={
              <a class="button" href={liveHref}>
                {texts.toLive}
              </a>
            }
          />
        ) : null}
      </div>
    </>
  )
}

function Source({ funnel, isCompared = false }: { funnel: Funnel; isCompared?: boolean }) {
  const { siteId } = useView()
  const { bounds, zone, dates } = useViewQueries()
  const input = isCompared ? funnel.comparedInput : funnel.input
  const range = isCompared ? funnel.compared : bounds
  const source = useFromAnswer(isCompared ? funnel.comparedResult : funnel.result, (data) => {
    if (input === null || range === undefined) return undefined
    const { from, to } = datesOf(range, zone)
    const request = requestOf('funnel', input)
    return {
      label: isCompared ? texts.compared : texts.label,
      request,
      linked: { steps: formatSteps(funnel.queriedSteps) },
      relativeRequest: isCompared ? undefined : relativeOf(request, dates),
      rows: () =>
        data.steps.map(({ event_type, users, rate_from_first, rate_from_previous }, at) => ({
          step: at + 1,
          event_type,
          users,
          rate_from_first,
          rate_from_previous,
        })),
      fileName: fileNameOf([siteId, 'funnel', from, to], 'csv'),
    }
  })
  return <MoreMenu source={source} />
}

function Settings({ funnel }: { funnel: Funnel }) {
  const { window, setWindow, actor, setActor } = funnel
  return (
    <div class="funnel-settings">
      <SelectField
        label={texts.counted}
        value={actor}
        options={(['visitor', 'user'] as const).map((value) => ({ value, label: texts.actorNames[value] }))}
        onChange={setActor}
      />
      <SelectField
        label={texts.window}
        value={window}
        options={[...new Set([...offeredWindows, window])].map((value) => ({ value, label: texts.within(value) }))}
        onChange={setWindow}
      />
    </div>
  )
}

/** The share that did all steps, and how it was before. */
function Result({ funnel }: { funnel: Funnel }) {
  const { result, isOld, comparedResult, compared, actor, window, setActor } = funnel
  const { zone } = useViewQueries()
  if (result.error !== undefined) return <ErrorPanel error={result.error} onRetry={result.retry} />
  if (result.data === undefined)
    return result.isLoading ? (
      <div class="funnel-result">
        <Skeleton width={280} height={40} />
      </div>
    ) : null
  const { steps } = result.data
  const last = steps.at(-1)
  const comparedSteps = comparedResult.isPlaceholderData || isOld ? [] : (comparedResult.data?.steps ?? [])
  // Without users in the first step there is no rate to compare with.
  const before = comparedSteps[0]?.users === 0 ? undefined : comparedSteps.at(-1)
  if (last === undefined || steps[0]?.users === 0) {
    const isUsers = actor === 'user'
    return (
      <EmptyState
        title={texts.none(texts.actorNames[actor])}
        why={isUsers ? texts.noneUsers : texts.noneVisitors}
        action={isUsers ? <Button onClick={() => setActor('visitor')}>{texts.countVisitors}</Button> : <WiderView />}
      />
    )
  }
  return (
    <div class={`funnel-result${isOld ? ' old' : ''}`}>
      <div class="row">
        <span class="big-number">
          <Num value={last.rate_from_first} kind="percent" />
        </span>
        <span class="muted">{texts.resultOf(texts.actorNames[actor], steps.length, texts.within(window))}</span>
        {before === undefined ? null : (
          <Change before={before.rate_from_first} after={last.rate_from_first} kind="percent" />
        )}
        <Source funnel={funnel} />
      </div>
      {compared === undefined ? null : comparedResult.error !== undefined ? (
        <ErrorPanel error={comparedResult.error} onRetry={comparedResult.retry} />
      ) : (
        <div class="legend-line label">
          <span class="compare-line" aria-hidden="true" />
          {texts.against(formatBounds(compared, zone))}
          <Source funnel={funnel} isCompared />
        </div>
      )}
    </div>
  )
}

function Steps({ funnel }: { funnel: Funnel }) {
  const { steps, setSteps, types, input, result, isOld, comparedResult, compared, actor } = funnel
  const isCurrent = result.data?.steps.length === steps.length && result.error === undefined
  const found = isCurrent ? result.data?.steps : undefined
  const comparedSteps = comparedResult.isPlaceholderData || isOld ? undefined : comparedResult.data?.steps
  const before = comparedSteps?.length === steps.length ? comparedSteps : undefined
  const next = types.find(({ value }) => !steps.some(({ event_type }) => event_type === value)) ?? types[0]
  return (
    <>
      <ol class={`funnel${isOld ? ' old' : ''}`} aria-label={texts.steps}>
        {steps.map((_, at) => (
          <li key={at}>
            <span class="step-place" aria-hidden="true">
              {at + 1}
            </span>
            <StepEditor funnel={funnel} at={at} />
            {input === null ? null : (
              <Bar
                step={found?.[at]}
                previous={found?.[at - 1]}
                before={before?.[at]}
                isCompared={compared !== undefined}
                actor={actor}
              />
            )}
          </li>
        ))}
      </ol>
      <div class="row">
        {steps.length >= funnelLimits.stepsMax ? null : (
          <Button
            icon="plus"
            onClick={() => {
              setSteps([...steps, { event_type: next?.value ?? steps[0]?.event_type ?? '', conditions: [] }])
            }}
          >
            {texts.addStep}
          </Button>
        )}
      </div>
    </>
  )
}

interface BarProps {
  step: StepResult | undefined
  previous: StepResult | undefined
  before: StepResult | undefined
  /** Whether there is a comparison, though its answer may not be there yet: its bar has its place. */
  isCompared: boolean
  actor: Actor
}

/** How many reached a step, as a bar of the first step's length, with what was lost on the way to it. */
function Bar({ step, previous, before, isCompared, actor }: BarProps) {
  if (step === undefined)
    return (
      <div class="funnel-bars">
        <Skeleton height={24} />
      </div>
    )
  const lost = previous === undefined ? 0 : previous.users - step.users
  return (
    <div class="funnel-bars">
      {previous === undefined || previous.users === 0 ? null : (
        <p class="funnel-loss muted small">
          <Icon name="arrow-down" size={14} />
          {lost === 0 ? texts.noneLost : texts.lost(lost, 100 - step.rate_from_previous, actor)}
        </p>
      )}
      <div class="funnel-track" aria-hidden="true">
        <span style={{ inlineSize: `${step.rate_from_first}%` }} />
      </div>
      {isCompared ? (
        <div class="funnel-track compared" aria-hidden="true">
          <span style={{ inlineSize: `${before?.rate_from_first ?? 0}%` }} />
        </div>
      ) : null}
      <p class="funnel-numbers">
        <span>
          <strong>
            <Num value={step.users} name={step.event_type} />
          </strong>{' '}
          {texts.actors(actor, step.users)}
        </span>
        {previous === undefined ? null : (
          <span class="muted">
            <Num value={step.rate_from_first} kind="percent" /> {texts.fromFirst},{' '}
            <Num value={step.rate_from_previous} kind="percent" /> {texts.fromPrevious}
          </span>
        )}
        {before === undefined ? null : (
          <span class="muted">
            <Change before={before.users} after={step.users} />
          </span>
        )}
      </p>
    </div>
  )
}
