// Choose an option from Go, use it, and submit its reward: AGENT=127.0.0.1:8400 go run client.go
// Whatever fails, choose returns the default; observe retries, which never counts a reward twice.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var bandit = "http://" + setting("AGENT", "127.0.0.1:8400") + "/bandits/" + setting("BANDIT", "button")

// ask fills in the answer to a request; the status is 0 where no answer could be read.
func ask(path string, body, answer any) (status int, err error) {
	timeout, _ := time.ParseDuration(setting("TIMEOUT", "0.5") + "s")
	sent, _ := json.Marshal(body)
	request, _ := http.NewRequest("POST", bandit+path, bytes.NewReader(sent))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	client := http.Client{Timeout: timeout} // all clients share their connections
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, fmt.Errorf("status %s", response.Status)
	}
	return 0, json.NewDecoder(response.Body).Decode(answer)
}

// choose returns an option and its ticket, which is empty for the default.
func choose() (arm, ticket string) {
	var answer struct{ Arm, Ticket string }
	_, err := ask("/choose", struct{}{}, &answer)
	if err != nil || answer.Arm == "" || answer.Ticket == "" {
		log.Println("the agent did not choose:", err)
		return setting("DEFAULT", "blue"), ""
	}
	return answer.Arm, answer.Ticket
}

// observe reports an error if the reward was not counted; that of a default counts nowhere.
func observe(ticket string, reward float64) (err error) {
	for pause := 100 * time.Millisecond; ticket != "" && pause < 10*time.Second; pause *= 2 {
		var status int
		body := map[string]any{"ticket": ticket, "reward": reward}
		status, err = ask("/observe", body, &struct{ Arm string }{})
		if err == nil || status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			return err // counted, or rejected for good
		}
		time.Sleep(pause)
	}
	return err
}

func main() {
	arm, ticket := choose()
	fmt.Println(arm)
	if err := observe(ticket, 1.0); err != nil {
		log.Fatalln("a reward is lost:", err)
	}
}
