import { useEffect, useRef, useState } from 'preact/hooks'
import { type Actor, actors } from '@sluice/contracts/actors'
import { isOneOf } from '@sluice/contracts/conditions'
import { type ApiState, useApi } from '../../api/hooks.ts'
import { rangeRefreshMs } from '../../api/range-refresh.ts'
import type { Data, Input } from '../../api/wire.ts'
import type { AddressProblem } from '../../page-components/address-problems.tsx'
import { usePageParameter, useView, useViewQueries } from '../../state/hooks.ts'
import type { Bounds } from '../../state/range.ts'
import { useSite } from '../../state/session.tsx'
import { emptySteps, formatSteps, parseSteps, type Step, suggestedSteps } from './steps.ts'

/** Delay after the last edit before the address takes the steps, in ms. */
const debounceMs = 400
const windowDefault = '7d'
/** A duration as the interface writes them: `90m`, `7d`. */
const isDuration = (text: string) => /^[1-9]\d{0,8}[smhd]$/.test(text)

export interface Funnel {
  steps: readonly Step[]
  /** The steps of `input`: those of the address, else suggested ones; empty ones are not queried. */
  queriedSteps: readonly Step[]
  /** The steps are a suggestion, not the user's. */
  isSuggested: boolean
  setSteps: (steps: readonly Step[]) => void
  window: string
  setWindow: (window: string) => void
  actor: Actor
  setActor: (actor: Actor) => void
  problems: readonly AddressProblem[]
  observed: ApiState<Data<'properties'>>
  /** Event types with counts, the most frequent first. */
  types: readonly { value: string; count: number }[]
  input: Input<'funnel'> | null
  /** The answer is about other steps, another window or other days than those that are shown. */
  isOld: boolean
  result: ApiState<Data<'funnel'>>
  compared: Bounds | undefined
  comparedInput: Input<'funnel'> | null
  comparedResult: ApiState<Data<'funnel'>>
}

/** The funnel of the address, and its answers. Steps are kept here while somebody types. */
export function useFunnel(): Funnel {
  const { siteId } = useView()
  const { environment, bounds, compared } = useViewQueries()
  const { last_event_at: lastAt } = useSite()
  const [text, setText] = usePageParameter('steps')
  const [windowText, setWindow] = usePageParameter('window')
  const window = windowText !== undefined && isDuration(windowText) ? windowText : windowDefault
  const [actorText, setActor] = usePageParameter('of')
  const observed = useApi('properties', { query: { site_id: siteId, environment } }, { staleMs: 300_000 })
  const types = observed.data?.properties.find(({ name }) => name === 'event_type')?.values ?? []
  const parsed = text === undefined ? undefined : parseSteps(text)
  const isOld = lastAt !== null && observed.data !== undefined && types.length === 0
  const queriedSteps = parsed ?? (isOld ? emptySteps : suggestedSteps(types.map(({ value }) => value)))
  const [draft, setDraft] = useState<readonly Step[]>()
  const timer = useRef<ReturnType<typeof setTimeout>>()
  const written = useRef<string | null>(null)
  useEffect(() => {
    // The address has moved, by ourselves or by Back: it holds the steps again.
    setDraft(undefined)
    // An edit just before Back must not undo it.
    if (text !== written.current) clearTimeout(timer.current)
  }, [text])
  useEffect(() => () => clearTimeout(timer.current), [])
  const steps = draft ?? queriedSteps
  const setSteps = (next: readonly Step[]) => {
    setDraft(next)
    clearTimeout(timer.current)
    if (next.some(({ event_type }) => event_type === '')) return
    timer.current = setTimeout(() => {
      written.current = formatSteps(next)
      setText(written.current)
    }, debounceMs)
  }
  const actor = isOneOf(actors, actorText) ? actorText : 'visitor'
  const problems = [
    ['window', windowText, windowText === window],
    ['steps', text, parsed !== undefined],
    ['of', actorText, actorText === actor],
  ] as const
  const inputOf = (range: Bounds | undefined): Input<'funnel'> | null =>
    range === undefined || queriedSteps === emptySteps || queriedSteps.length === 0
      ? null
      : {
          body: {
            site_id: siteId,
            steps: queriedSteps.map(({ event_type, conditions }) => ({
              event_type,
              ...(conditions.length === 0 ? {} : { conditions }),
            })),
            window,
            start_date: range.startMs,
            end_date: range.endMs,
            environment,
            of: actor,
          },
        }
  const input = inputOf(bounds)
  const comparedInput = inputOf(compared)
  const result = useApi('funnel', input, { refetchMs: rangeRefreshMs })
  return {
    steps,
    queriedSteps,
    isSuggested: parsed === undefined && draft === undefined,
    setSteps,
    window,
    setWindow: (value) => setWindow(value === windowDefault ? undefined : value),
    actor,
    setActor: (value) => setActor(value === 'visitor' ? undefined : value),
    problems: problems.flatMap(([parameter, value, isKnown]) =>
      value === undefined || isKnown ? [] : [{ parameter, value }],
    ),
    observed,
    types,
    input,
    isOld: result.isPlaceholderData || formatSteps(steps) !== formatSteps(queriedSteps),
    result,
    compared,
    comparedInput,
    comparedResult: useApi('funnel', comparedInput, { refetchMs: rangeRefreshMs }),
  }
}
