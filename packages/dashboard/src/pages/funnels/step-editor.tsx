import { useState } from 'preact/hooks'
import { funnelLimits } from '@sluice/contracts/funnel'
import { FilterDialog } from '../../app/filter-dialog.tsx'
import { formatCompact } from '../../format/numbers.ts'
import { conditionLabel } from '../../format/sentences.ts'
import { messages } from '../../messages/en.ts'
import { Button } from '../../ui/button.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import { Icon } from '../../ui/icon.tsx'
import { texts } from './messages.ts'
import type { Step } from './steps.ts'
import type { Funnel } from './use-funnel.ts'

/** A step as a sentence: its event, its conditions, and how to move or remove it. */
export function StepEditor({ funnel, at }: { funnel: Funnel; at: number }) {
  const { steps, setSteps, types, of } = funnel
  const [edited, setEdited] = useState<number>()
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
        <span class="label">{at === 0 ? texts.first(texts.ofTitle[of]) : texts.then}</span>
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
      <div class="step-conditions">
        {conditions.map((condition, index) => {
          const text = conditionLabel(condition)
          return (
            <span key={index} class="step-condition">
              <span class="muted small">{index === 0 ? texts.where : texts.and}</span>
              <span class="chip">
                <button
                  type="button"
                  class="chip-text"
                  aria-label={messages.filters.edit(text)}
                  onClick={() => setEdited(index)}
                >
                  <bdi class="truncate">{text}</bdi>
                </button>
                <button
                  type="button"
                  class="chip-remove"
                  aria-label={messages.filters.remove(text)}
                  onClick={() => {
                    change({ conditions: conditions.filter((_, other) => other !== index) })
                  }}
                >
                  <Icon name="x" size={14} />
                </button>
              </span>
            </span>
          )
        })}
        <button
          type="button"
          class="link-button small"
          aria-label={texts.addConditionTo(place)}
          onClick={() => setEdited(conditions.length)}
        >
          {texts.addCondition}
        </button>
      </div>
      {edited === undefined ? null : (
        <FilterDialog
          condition={conditions[edited]}
          onClose={() => setEdited(undefined)}
          onApply={(condition) => {
            setEdited(undefined)
            const next = [...conditions]
            next[edited] = condition
            change({ conditions: next })
          }}
          onRemove={() => {
            setEdited(undefined)
            change({ conditions: conditions.filter((_, other) => other !== edited) })
          }}
        />
      )}
    </div>
  )
}
