import { funnelLimits } from '@sluice/contracts/funnel'
import { formatCompact } from '../../format/numbers.ts'
import { Button } from '../../ui/button.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import { ConditionChips } from './condition-chips.tsx'
import { texts } from './messages.ts'
import type { Step } from './steps.ts'
import type { Funnel } from './use-funnel.ts'

/** A step as a sentence: its event, its conditions, and how to move or remove it. */
export function StepEditor({ funnel, at }: { funnel: Funnel; at: number }) {
  const { steps, setSteps, types, actor } = funnel
  const step = steps[at]
  if (step === undefined) return null
  const { event_type, conditions } = step
  const place = at + 1
  const change = (patch: Partial<Step>) => {
    setSteps(steps.map((each, other) => (other === at ? { ...each, ...patch } : each)))
  }
  const move = (to: number) => {
    const next = steps.filter((_, other) => other !== at)
    next.splice(to, 0, step)
    setSteps(next)
  }
  return (
    <div class="step">
      <div class="step-line">
        <span class="label">{at === 0 ? texts.first(texts.actorTitles[actor]) : texts.then}</span>
        <span class="step-actions">
          {at === 0 ? null : (
            <Button kind="quiet" icon="arrow-up" isIconOnly onClick={() => move(at - 1)}>
              {texts.up(place)}
            </Button>
          )}
          {at === steps.length - 1 ? null : (
            <Button kind="quiet" icon="arrow-down" isIconOnly onClick={() => move(at + 1)}>
              {texts.down(place)}
            </Button>
          )}
          {steps.length <= funnelLimits.stepsMin ? null : (
            <Button kind="quiet" icon="x" isIconOnly onClick={() => setSteps(steps.filter((_, other) => other !== at))}>
              {texts.remove(place)}
            </Button>
          )}
        </span>
      </div>
      <Combobox
        // The field keeps its text while one types; another step at this place is another field.
        key={`${steps.length} ${at}`}
        isFree
        name={texts.eventOf(place)}
        value={event_type}
        options={types.map(({ value, count }) => ({ value, label: value, detail: formatCompact(count) }))}
        onChange={(chosen) => {
          change({ event_type: chosen })
        }}
      />
      <ConditionChips
        conditions={conditions}
        addLabel={texts.addConditionTo(place)}
        onChange={(next) => {
          change({ conditions: next })
        }}
      />
    </div>
  )
}
