import { useState } from 'preact/hooks'
import { alertOperators, noDataRules } from '@sluice/contracts/alert-state'
import { notificationTypes } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import { metrics } from '@sluice/contracts/stats'
import type { ApiError } from '../../api/error.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useApi } from '../../api/hooks.ts'
import { messages } from '../../messages/en.ts'
import { useSite } from '../../state/session.tsx'
import { Button } from '../../ui/button.tsx'
import { Checkbox, RadioGroup } from '../../ui/choice.tsx'
import { Combobox } from '../../ui/combobox.tsx'
import { Field, SelectField, TextField } from '../../ui/field.tsx'
import { focusFirstProblem } from '../../ui/form-dialog.tsx'
import { ErrorPanel } from '../../ui/states.tsx'
import { ConditionChips } from '../funnels/condition-chips.tsx'
import { bodyOf, type Draft, problemsOf } from './draft.ts'
import { DurationField } from './duration-field.tsx'
import { texts } from './messages.ts'
import { percentOperators } from './operators.ts'
import { Preview } from './preview.tsx'
import { thresholdKind } from './rule-text.ts'

interface RuleEditorProps {
  draft: Draft
  /** The environment whose events the rule counts. */
  environment: Environment
  set: (patch: Partial<Draft>) => void
  submit: string
  onSubmit: () => Promise<void>
  isBusy: boolean
  error: ApiError | undefined
}

/** A part of the form. */
interface PartProps {
  draft: Draft
  set: (patch: Partial<Draft>) => void
  errorOf: (field: string) => string | undefined
}

/** The settings of a rule, and next to them what they would have done. */
export function RuleEditor({ draft, environment, set, submit, onSubmit, isBusy, error }: RuleEditorProps) {
  const { site_id: siteId } = useSite()
  const [isTried, setTried] = useState(false)
  const problems = problemsOf(draft)
  const errors = fieldErrors(error, [...Object.keys(problems), 'description', 'condition.metric', 'condition.operator'])
  const parts: PartProps = {
    draft,
    set,
    errorOf: (field) => (isTried ? problems[field] : undefined) ?? errors.forField(field),
  }
  return (
    <div class="alert-editor">
      <form
        class="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          setTried(true)
          // The change's own state shows its error.
          if (!isBusy && bodyOf(draft, siteId) !== undefined) onSubmit().catch(() => undefined)
          focusFirstProblem(event.currentTarget)
        }}
      >
        <TextField
          label={texts.name}
          hint={texts.nameHint}
          value={draft.name}
          onInput={(name) => {
            parts.set({ name })
          }}
          autocomplete="off"
          error={parts.errorOf('name')}
        />
        <p class="muted small">{texts.ofEnvironment(messages.bar.environments[environment])}</p>
        <Condition {...parts} environment={environment} />
        <Behaviour {...parts} />
        <Notification {...parts} />
        <ErrorPanel error={errors.rest} />
        <div>
          <Button kind="primary" type="submit" isBusy={isBusy}>
            {submit}
          </Button>
        </div>
      </form>
      <Preview
        draft={draft}
        environment={environment}
        onThreshold={(threshold) => {
          parts.set({ threshold: String(threshold) })
        }}
      />
    </div>
  )
}

function Condition({ draft, set, errorOf, environment }: PartProps & { environment: Environment }) {
  const { site_id: siteId } = useSite()
  const observed = useApi('properties', { query: { site_id: siteId, environment } })
  const types = observed.data?.properties.find((each) => each.name === 'event_type')?.values ?? []
  const isPercent = percentOperators.includes(draft.operator)
  const unit = texts.units[thresholdKind(draft)]
  return (
    <>
      <div class="field-columns">
        <SelectField
          label={texts.metric}
          error={errorOf('condition.metric')}
          value={draft.metric}
          options={metrics.map((value) => ({ value, label: messages.metrics[value] }))}
          onChange={(metric) => {
            set({ metric })
          }}
        />
        <Field
          label={texts.eventType}
          isOptional={draft.metric !== 'event_count_by_type'}
          error={errorOf('condition.event_type')}
        >
          {(attributes) => (
            <Combobox
              attributes={attributes}
              isFree
              value={draft.eventType}
              options={types.map(({ value, count }) => ({ value, label: value, detail: String(count) }))}
              onChange={(eventType) => {
                set({ eventType })
              }}
            />
          )}
        </Field>
      </div>
      <div class="field-columns">
        <SelectField
          label={texts.operator}
          error={errorOf('condition.operator')}
          value={draft.operator}
          options={alertOperators.map((value) => ({ value, label: texts.operators[value] }))}
          onChange={(operator) => {
            set({ operator })
          }}
        />
        <TextField
          label={unit === '' ? texts.threshold : `${texts.threshold} (${unit})`}
          type="number"
          hint={isPercent ? texts.percentHint : texts.thresholdHint}
          value={draft.threshold}
          onInput={(threshold) => {
            set({ threshold })
          }}
          error={errorOf('condition.threshold')}
        />
      </div>
      <DurationField
        label={texts.window}
        units="mhd"
        value={draft.window}
        onChange={(window) => {
          set({ window })
        }}
        error={errorOf('condition.window')}
      />
      <fieldset>
        <legend class="legend">{texts.filter}</legend>
        <ConditionChips
          conditions={draft.filter}
          onChange={(filter) => {
            set({ filter })
          }}
        />
      </fieldset>
    </>
  )
}

function Behaviour({ draft, set, errorOf }: PartProps) {
  return (
    <>
      <div class="field-columns">
        <DurationField
          label={texts.for}
          hint={texts.forHint}
          units="smhd"
          value={draft.for}
          onChange={(forDuration) => {
            set({ for: forDuration })
          }}
          error={errorOf('for')}
        />
        <DurationField
          label={texts.cooldown}
          hint={texts.cooldownHint}
          units="smhd"
          value={draft.cooldown}
          onChange={(cooldown) => {
            set({ cooldown })
          }}
          error={errorOf('cooldown')}
        />
      </div>
      <SelectField
        label={texts.noData}
        value={draft.noData}
        options={noDataRules.map((value) => ({ value, label: texts.noDataRules[value] }))}
        onChange={(noData) => {
          set({ noData })
        }}
      />
    </>
  )
}

function Notification({ draft, set, errorOf }: PartProps) {
  return (
    <>
      <RadioGroup
        isInline
        legend={texts.notify}
        value={draft.type}
        options={notificationTypes.map((value) => ({ value, label: texts.types[value] }))}
        onChange={(type) => {
          set({ type })
        }}
      />
      {draft.type === 'email' ? (
        <TextField
          label={texts.to}
          hint={texts.toHint}
          value={draft.to}
          onInput={(to) => {
            set({ to })
          }}
          autocomplete="off"
          error={errorOf('notification_config.to')}
        />
      ) : (
        <TextField
          label={draft.type === 'slack' ? texts.slackUrl : texts.url}
          type="url"
          placeholder="https://"
          value={draft.url}
          onInput={(url) => {
            set({ url })
          }}
          autocomplete="off"
          error={errorOf('notification_config.url')}
        />
      )}
      <TextField
        label={texts.channel}
        isOptional
        hint={texts.channelHint}
        value={draft.channel}
        onInput={(channel) => {
          set({ channel })
        }}
        autocomplete="off"
        error={errorOf('notification_config.channel')}
      />
      <TextField
        label={texts.description}
        isOptional
        lines={2}
        value={draft.description}
        onInput={(description) => {
          set({ description })
        }}
        error={errorOf('description')}
      />
      <Checkbox
        label={texts.enabled}
        checked={draft.isEnabled}
        onChange={(isEnabled) => {
          set({ isEnabled })
        }}
      />
    </>
  )
}
