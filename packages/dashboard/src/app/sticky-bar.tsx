import type { ComponentChildren } from 'preact'
import { useContext, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { formatCustom } from '../format/dates.ts'
import { rangeLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { useChosenView, useView, useViewQueries } from '../state/hooks.ts'
import { type Compare, type CustomRange, type Preset, presets, type Range, shifted } from '../state/range.ts'
import type { SitePage } from '../state/route.ts'
import { SiteContext, useSession, useSiteZone } from '../state/session.tsx'
import { Button } from '../ui/button.tsx'
import { Combobox } from '../ui/combobox.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Select } from '../ui/select.tsx'
import { FilterBar, FilterShortcuts } from './filter-bar.tsx'
import { Freshness } from './freshness.tsx'
import { isNarrow } from './narrow.ts'
import { RangeDialog } from './range-dialog.tsx'
import { useShortcut } from './shortcuts.tsx'
import { zoneNames } from './zones.ts'

type Part = 'range' | 'compare' | 'zone' | 'environment' | 'filter'

/** The settings on which each page's numbers depend; pages that are not listed have no bar. */
const parts: Partial<Record<SitePage, readonly Part[]>> = {
  overview: ['range', 'compare', 'zone', 'environment', 'filter'],
  live: ['environment', 'filter'],
  events: ['range', 'zone', 'environment', 'filter'],
  funnels: ['range', 'compare', 'zone', 'environment'],
  retention: ['zone', 'environment'],
  cohorts: ['environment'],
}

/** The bar above a page's numbers: its query, and how fresh the answers are. */
export function StickyBar({ page }: { page: SitePage }) {
  const shown = parts[page]
  const isKnown = useContext(SiteContext) !== undefined
  const bar = useRef<HTMLElement>(null)
  // What Tab reaches is scrolled into view below the bar, whose height depends on the filters in it.
  useLayoutEffect(() => {
    const element = bar.current
    if (element === null) return undefined
    const { style } = document.documentElement
    const observer = new ResizeObserver(() => style.setProperty('--bar-height', `${element.offsetHeight}px`))
    observer.observe(element)
    return () => {
      observer.disconnect()
      style.removeProperty('--bar-height')
    }
  }, [shown])
  if (shown === undefined) return null
  return (
    <section ref={bar} class="sticky-bar" aria-label={messages.bar.view}>
      {isKnown ? <BarParts shown={shown} /> : null}
      <div class="bar-end">
        <Freshness />
      </div>
    </section>
  )
}

function BarParts({ shown }: { shown: readonly Part[] }) {
  const [isOpen, setOpen] = useState(false)
  const { filters, env, zone } = useView()
  const has = (part: Part) => shown.includes(part)
  /** The settings that a narrow page does not show, although its numbers depend on them. */
  const changes =
    (has('filter') ? filters.length : 0) +
    (has('environment') && env !== undefined ? 1 : 0) +
    (has('zone') && zone !== undefined ? 1 : 0)
  const filter = has('filter') ? <FilterBar /> : null
  // Keys work also where a narrow page has what they stand for in its dialog. They come last, as `?` lists them in the
  // order in which they are rendered.
  const keys = (
    <>
      {has('compare') ? <CompareShortcut /> : null}
      {has('filter') ? <FilterShortcuts /> : null}
    </>
  )
  if (!isNarrow.value) {
    return (
      <>
        {has('range') ? <RangeChoice /> : null}
        {has('compare') ? <CompareChoice /> : null}
        {has('zone') ? <ZoneChoice /> : null}
        {has('environment') ? <EnvironmentChoice /> : null}
        {filter}
        {keys}
      </>
    )
  }
  return (
    <>
      {has('range') ? <RangeChoice /> : null}
      <Button kind="quiet" icon="sliders-horizontal" isIconOnly={changes === 0} onClick={() => setOpen(true)}>
        {changes === 0 ? messages.bar.view : messages.bar.viewWith(changes)}
      </Button>
      {isOpen ? (
        <Dialog title={messages.bar.view} size="large" onClose={() => setOpen(false)}>
          <div class="stack bar-dialog">
            {has('compare') ? (
              <Labelled label={messages.bar.compare}>
                <CompareChoice />
              </Labelled>
            ) : null}
            {has('zone') ? (
              <Labelled label={messages.bar.zone}>
                <ZoneChoice />
              </Labelled>
            ) : null}
            {has('environment') ? (
              <Labelled label={messages.bar.environment}>
                <EnvironmentChoice />
              </Labelled>
            ) : null}
            <div class="row">{filter}</div>
          </div>
        </Dialog>
      ) : null}
      {keys}
    </>
  )
}

/** A choice with its name above it; the choice itself tells screen readers. */
function Labelled({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <span class="label" aria-hidden="true">
        {label}
      </span>
      {children}
    </div>
  )
}

/** Keys of the presets, as Plausible has them. */
const presetKeys: Record<Preset, string> = {
  today: 'd',
  yesterday: 'e',
  '7d': 'w',
  '28d': 'f',
  '91d': 'n',
  month: 'm',
  last_month: 'p',
  year: 'y',
  '12mo': 'l',
  all: 'a',
}

function PresetShortcut({ preset, choose }: { preset: Preset; choose: (range: Range) => void }) {
  useShortcut(presetKeys[preset], messages.shortcuts.range(messages.bar.ranges[preset]), () => choose(preset))
  return null
}

function RangeChoice() {
  const { setView } = useView()
  const { range } = useChosenView()
  const { moment } = useViewQueries()
  const [isCustom, setCustom] = useState(false)
  // Another range may not have the chart's unit.
  const choose = (chosen: Range) => {
    setView({ range: chosen, by: undefined })
  }
  const shift = (by: -1 | 1) => {
    const to = shifted(range, by, moment)
    if (to !== undefined) choose(to)
  }
  useShortcut('c', messages.shortcuts.custom, () => setCustom(true))
  useShortcut('ArrowLeft', messages.shortcuts.back, () => shift(-1))
  useShortcut('ArrowRight', messages.shortcuts.forth, () => shift(1))
  const custom = typeof range === 'object' ? [{ value: 'chosen', label: rangeLabel(range) }] : []
  return (
    <>
      {presets.map((preset) => (
        <PresetShortcut key={preset} preset={preset} choose={choose} />
      ))}
      <Select
        class="quiet-input"
        name={messages.bar.range}
        value={typeof range === 'object' ? 'chosen' : range}
        options={[
          ...custom,
          ...presets.map((preset) => ({ value: preset, label: messages.bar.ranges[preset] })),
          { value: 'custom', label: messages.bar.custom },
        ]}
        onChange={(value) => {
          if (value === 'custom') setCustom(true)
          else if (value !== 'chosen') choose(value as Preset)
        }}
      />
      {isCustom ? (
        <RangeDialog
          title={messages.bar.chooseRange}
          onClose={() => setCustom(false)}
          onChoose={(chosen: CustomRange) => {
            setCustom(false)
            choose(chosen)
          }}
        />
      ) : null}
    </>
  )
}

function CompareShortcut() {
  const { setView } = useView()
  const { compare } = useChosenView()
  useShortcut('x', messages.shortcuts.compare, () => {
    setView({ compare: compare === 'none' ? 'previous' : 'none' })
  })
  return null
}

function CompareChoice() {
  const { setView } = useView()
  const { compare } = useChosenView()
  const [isCustom, setCustom] = useState(false)
  const choose = (chosen: Compare) => {
    setView({ compare: chosen })
  }
  const names = messages.bar.compares
  const custom = typeof compare === 'object' ? [{ value: 'chosen', label: formatCustom(compare) }] : []
  return (
    <>
      <Select
        class="quiet-input"
        name={messages.bar.compare}
        value={typeof compare === 'object' ? 'chosen' : compare}
        options={[
          ...custom,
          ...(['previous', 'year', 'none'] as const).map((value) => ({ value, label: names[value] })),
          { value: 'custom', label: messages.bar.custom },
        ]}
        onChange={(value) => {
          if (value === 'custom') setCustom(true)
          else if (value !== 'chosen') choose(value as 'previous')
        }}
      />
      {isCustom ? (
        <RangeDialog
          title={messages.bar.chooseCompare}
          onClose={() => setCustom(false)}
          onChoose={(chosen) => {
            setCustom(false)
            choose(chosen)
          }}
        />
      ) : null}
    </>
  )
}

function ZoneChoice() {
  const { setView } = useView()
  const { zone } = useChosenView()
  const siteZone = useSiteZone()
  const own =
    siteZone === undefined
      ? { value: '', label: messages.bar.unknownSiteZone }
      : { value: siteZone, label: messages.bar.siteZone(siteZone) }
  return (
    <Combobox
      isQuiet
      name={messages.bar.zone}
      value={zone ?? own.value}
      options={[
        own,
        ...zoneNames()
          .filter((each) => each !== own.value)
          .map((each) => ({ value: each, label: each })),
      ]}
      onChange={(chosen) => {
        setView({ zone: chosen === own.value ? undefined : chosen })
      }}
    />
  )
}

function EnvironmentChoice() {
  const { setView } = useView()
  const { env } = useChosenView()
  const { environment: own } = useSession()
  return (
    <Select
      class="quiet-input"
      name={messages.bar.environment}
      value={env ?? own}
      options={(['prod', 'dev', 'all'] as const).map((value) => ({ value, label: messages.bar.environments[value] }))}
      onChange={(value) => {
        setView({ env: value === own ? undefined : value })
      }}
    />
  )
}
